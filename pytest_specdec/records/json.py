"""A value that ``json.loads`` can return."""

from __future__ import annotations

from typing import Any

__all__ = ["Json"]


Json = Any
