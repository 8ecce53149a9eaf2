"""Claims about speculative decoding, judged on a real llama.cpp server."""

__version__ = "0.1.0"
