"""One measured value against its stored entry."""

from __future__ import annotations

import math
from datetime import date

from pytest_specdec.baseline.entries import Comparability, Direction, Entry, EntryKind
from pytest_specdec.errors import SuiteError
from pytest_specdec.records import Finding, Json, Reason, Status

__all__ = ["OLD_DAYS", "compare", "differences"]

OLD_DAYS = 90


def compare(entry: Entry, value: float, unit: str, comparability: Comparability, today: date) -> Finding:
    """Judge ``value`` by a recorded or published entry.

    A recorded one needs equal models, workload and arm, else the finding is void. A published one from another device
    gives its direction and floor only.
    """
    if not math.isfinite(value):
        return Finding(Status.VOID, Reason.ARITHMETIC, f"{value} {unit}", "a finite figure")
    if entry.value is None:
        raise SuiteError(
            f"comparing {value:g} {unit} with the entry of {entry.claim}",
            f"the entry is {entry.kind} and stores no value",
            "judge its behaviour, or rename the claim",
        )
    if entry.kind is EntryKind.RECORDED:
        return _recorded(entry, value, unit, comparability, today)
    return _published(entry, value, unit)


def _recorded(entry: Entry, value: float, unit: str, comparability: Comparability, today: date) -> Finding:
    stored, tolerance = entry.value or 0.0, entry.tolerance or 0.0
    measured = f"{value:.3f} {unit}"
    expected = f"{stored:.3f} {unit} ± {tolerance:.0%} ({entry.provenance['build']}, {entry.provenance['date']})"
    evidence: dict[str, Json] = {"value": value, "recorded": stored, "tolerance": tolerance, "unit": unit}
    different = differences(entry.comparability, comparability)
    if entry.unit and entry.unit != unit:
        different.append(f"unit: recorded in {entry.unit}, measured in {unit}")
    if different:
        return Finding(
            Status.VOID, Reason.BASELINE_MISMATCH, measured, expected, "\n".join(different),
            "record anew with --specdec-update-baseline after a look at what changed", evidence,
        )  # fmt: skip
    change = _change(stored, value)
    evidence["change"] = change
    if _against(entry.direction, change, tolerance):
        detail = f"it moved by {change:+.1%}, which is worse by more than {tolerance:.0%}"
        return Finding(Status.FAIL, Reason.RECORD_MOVED, measured, expected, detail, evidence=evidence)
    return Finding(
        Status.PASS, Reason.HELD, measured, expected, _remarks(entry, change, tolerance, today), evidence=evidence
    )


def _change(stored: float, value: float) -> float:
    """Relative to the stored value; from zero every step is infinite."""
    if stored == value:
        return 0.0
    return (value - stored) / abs(stored) if stored else math.copysign(math.inf, value)


def _published(entry: Entry, value: float, unit: str) -> Finding:
    measured = f"{value:.3f} {unit}"
    published = f"published {entry.value:g} {entry.unit} on {entry.device}"
    evidence: dict[str, Json] = {"value": value, "published": entry.value, "floor": entry.floor, "unit": unit}
    if entry.floor is None:
        return Finding(
            Status.PASS, Reason.HELD, measured, f"{published}; no floor stated", entry.caveat, evidence=evidence
        )
    worse = value > entry.floor if entry.direction is Direction.LOWER else value < entry.floor
    word = "at most" if entry.direction is Direction.LOWER else "at least"
    expected = f"{word} {entry.floor:g} {unit} ({published})"
    if worse:
        return Finding(Status.FAIL, Reason.BELOW_FLOOR, measured, expected, entry.caveat, evidence=evidence)
    return Finding(Status.PASS, Reason.HELD, measured, expected, entry.caveat, evidence=evidence)


def _against(direction: Direction, change: float, tolerance: float) -> bool:
    if direction is Direction.HIGHER:
        return change < -tolerance
    if direction is Direction.LOWER:
        return change > tolerance
    return abs(change) > tolerance


def differences(stored: Comparability | None, now: Comparability) -> list[str]:
    """What a record was made with that is not so now, one line each."""
    if stored is None:
        return ["the entry does not say what it was recorded with"]
    lines = [
        f"{what} {name}: recorded with {before.get(name, 'none')[:12]}, measured with {after.get(name, 'none')[:12]}"
        for what, before, after in (
            ("model", stored.models, now.models),
            ("workload", stored.workloads, now.workloads),
        )
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    if stored.arm != now.arm:
        lines.append(f"arm: recorded with {stored.arm}, measured with {now.arm}")
    return lines


def _remarks(entry: Entry, change: float, tolerance: float, today: date) -> str:
    remarks = []
    if abs(change) > tolerance:
        remarks.append(f"better by {abs(change):.1%}: record it, or a later loss of it goes unseen")
    age = (today - date.fromisoformat(str(entry.provenance["date"]))).days
    if age > OLD_DAYS:
        remarks.append(f"the record is {age} days old: record anew")
    return "; ".join(remarks)
