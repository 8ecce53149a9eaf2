"""A verdict as pytest user properties: what JUnit XML shows, and what a pytest-xdist worker sends home."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pytest_specdec.records import ClaimKind, Reason, Status, Verdict

__all__ = ["from_properties", "to_properties"]

_PREFIX = "specdec."
_TEXTS = ("claim", "measured", "expected", "source", "detail", "remedy")


def to_properties(verdict: Verdict) -> list[tuple[str, str]]:
    """Name and value pairs, all text."""
    return [
        *((_PREFIX + name, getattr(verdict, name)) for name in _TEXTS),
        (_PREFIX + "status", verdict.status.value),
        (_PREFIX + "kind", verdict.kind.value),
        (_PREFIX + "reason", verdict.reason.value),
        (_PREFIX + "evidence", json.dumps(verdict.evidence, ensure_ascii=False)),
    ]


def from_properties(properties: Iterable[tuple[str, object]]) -> Verdict | None:
    """The verdict among them; None when there is none."""
    found = {name.removeprefix(_PREFIX): str(value) for name, value in properties if name.startswith(_PREFIX)}
    if "status" not in found:
        return None
    return Verdict(
        **{name: found[name] for name in _TEXTS},
        status=Status(found["status"]),
        kind=ClaimKind(found["kind"]),
        reason=Reason(found["reason"]),
        evidence=json.loads(found["evidence"]),
    )
