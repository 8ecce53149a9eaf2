"""Writes the claims of a collection to the file in ``$SPECDEC_LISTING``; loaded with ``-p`` by the commands."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_specdec.keys import CLAIM, PROFILE

__all__ = ["pytest_collection_finish"]

_FIELDS = ("id", "source", "arms", "over", "on", "study")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is left after ``-m`` and ``-k``, in the order of the suites."""
    path = os.environ.get("SPECDEC_LISTING")
    if not path:
        return
    rows = []
    for item in session.items:
        if CLAIM in item.stash:
            claim = item.stash[CLAIM]
            rows.append({name: getattr(claim, name) for name in _FIELDS} | {"kind": claim.kind, "test": item.nodeid})
    profile = session.config.stash[PROFILE].name if PROFILE in session.config.stash else ""
    Path(path).write_text(json.dumps({"profile": profile, "claims": rows}), "utf-8")
