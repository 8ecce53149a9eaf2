from __future__ import annotations

import os

import pytest

from tests.support import SCRUBBED, SETTINGS


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer has set must not reach the runs under test."""
    for name in (*SCRUBBED, *(name for name in os.environ if name.startswith("SPECDEC_"))):
        monkeypatch.delenv(name, raising=False)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
