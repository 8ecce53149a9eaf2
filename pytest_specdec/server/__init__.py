"""A llama-server: located, started, asked, stopped."""
