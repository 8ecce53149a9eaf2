"""The results of a run as one JSON document; its schema is ``results.schema.json`` beside this file."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_specdec.records import Json, Verdict

__all__ = ["results_document", "summary_row"]

SCHEMA_VERSION = 1
_IN_SUMMARY = ("run", "started", "build", "profile", "device")
_FROM_IDENTITY = ("run", "started", "build", "profile", "device", "machine")


def results_document(
    identity: Mapping[str, Json],
    verdicts: Sequence[tuple[str, Verdict]],
    ended: str,
    exit_status: int,
    unfinished: Sequence[str] = (),
) -> dict[str, Json]:
    """``identity`` is ``run.json``'s content; each verdict comes with its test's id; ``ended`` is an ISO 8601 time.

    ``unfinished`` are the selected claims that the run did not reach or did not finish.
    """
    return {
        "schema": SCHEMA_VERSION,
        **{name: identity[name] for name in _FROM_IDENTITY},
        **({"base": identity["base"]} if identity.get("base") else {}),
        "ended": ended,
        "exit_status": exit_status,
        **({"unfinished": list(unfinished)} if unfinished else {}),
        "summary": dict(Counter(verdict.status.value for _, verdict in verdicts)),
        "verdicts": [{"test": test, **dataclasses.asdict(verdict)} for test, verdict in verdicts],
    }


def summary_row(document: Mapping[str, Any]) -> dict[str, Json]:
    """What the history keeps of a results document when its run's directory is gone: statuses and single figures."""
    return {
        **{name: document[name] for name in _IN_SUMMARY if name in document},
        "verdicts": [
            {"claim": v["claim"], "status": v["status"], "evidence": {"value": _single_figure(v["evidence"])}}
            for v in document["verdicts"]
        ],
    }


def _single_figure(evidence: Mapping[str, Any]) -> Json:
    """A contrast has a ratio where others have a value."""
    return evidence.get("value", evidence.get("ratio"))
