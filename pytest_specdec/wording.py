"""How numbers stand in sentences."""

from __future__ import annotations

__all__ = ["counted", "lasting"]

_MINUTE_S = 60.0


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 claim``, ``2 claims``; ``plural`` where an s does not do."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def lasting(seconds: float) -> str:
    """``12 s``, ``3.1 min``: what takes less than a minute in seconds."""
    return f"{seconds:.0f} s" if seconds < _MINUTE_S else f"{seconds / _MINUTE_S:.1f} min"
