"""Where the plugin keeps its state in pytest's stashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_specdec.baseline import Record
    from pytest_specdec.judge import Judge
    from pytest_specdec.records import Claim, Profile, Settings, Verdict
    from pytest_specdec.session import Run

__all__ = [
    "ANNOTATIONS",
    "CLAIM",
    "DECLARED",
    "JUDGE",
    "NOTES",
    "PROFILE",
    "REACHED",
    "RECORDS",
    "RED",
    "RUN",
    "RUN_DIR",
    "SESSION",
    "SETTINGS",
    "TOLD",
    "VERDICTS",
]

SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
ANNOTATIONS: pytest.StashKey[list[str]] = pytest.StashKey()  # workflow commands for GitHub Actions
DECLARED: pytest.StashKey[set[str]] = pytest.StashKey()  # the ids of all collected claims, selected or not
NOTES: pytest.StashKey[list[str]] = pytest.StashKey()  # what the end of the run has to tell
PROFILE: pytest.StashKey[Profile] = pytest.StashKey()
RUN: pytest.StashKey[Run] = pytest.StashKey()
RUN_DIR: pytest.StashKey[str] = pytest.StashKey()
SESSION: pytest.StashKey[str] = pytest.StashKey()  # of pytest-xdist: what its workers have in common
CLAIM: pytest.StashKey[Claim] = pytest.StashKey()
JUDGE: pytest.StashKey[Judge] = pytest.StashKey()
REACHED: pytest.StashKey[set[str]] = pytest.StashKey()  # the ids of claims whose test came to an end
RECORDS: pytest.StashKey[list[Record]] = pytest.StashKey()
RED: pytest.StashKey[bool] = pytest.StashKey()  # whether a worker of pytest-xdist that had a run wants it red
TOLD: pytest.StashKey[dict[str, str]] = pytest.StashKey()  # a cause → the claim that it was told for
VERDICTS: pytest.StashKey[list[tuple[str, Verdict]]] = pytest.StashKey()  # the test's id with each
