"""Faults that a gate must see, each on a real server."""
