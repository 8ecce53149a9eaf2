"""How numbers stand in sentences."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 claim``, ``2 claims``; ``plural`` where an s does not do."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
