"""The claims: nothing here starts a process, speaks HTTP or computes statistics."""
