"""Writes what a run measured into the baseline of its profile and device."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_dir

from pytest_specdec.baseline.describe import document_changes
from pytest_specdec.baseline.entries import Calibrated, Comparability, Direction, StoredContrast
from pytest_specdec.baseline.migrate import SCHEMA_VERSION
from pytest_specdec.baseline.store import read
from pytest_specdec.errors import BaselineError
from pytest_specdec.records import Json

__all__ = ["Record", "Recording", "write_calibrations", "write_records"]

_NOISE_SIGMAS = 2.0


@dataclass(frozen=True, slots=True)
class Record:
    """A value that a claim offers to the baseline."""

    claim: str
    value: float
    unit: str
    tolerance: float
    direction: Direction
    comparability: Comparability
    contrast: StoredContrast | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """How a run may write: only what has no entry yet, and why it may store a value that is worse than before."""

    provenance: Mapping[str, Json]
    only_new: bool = False
    accepted_regression: str | None = None


def write_records(path: Path, profile: str, device: str, records: Iterable[Record], recording: Recording) -> list[str]:
    """Add or replace entries, whole or not at all, and return the lines that say what changed.

    Raises BaselineError when the file that is there is not valid, nothing can be written, or a value moved against its
    direction and nobody said why that is right; the file is then as it was.
    """
    with _locked(path):
        before = read(path, profile, device) if path.exists() else _empty(profile, device)
        after = before | {"entries": before["entries"] | _new_entries(before["entries"], records, recording)}
        changes = document_changes(before, after)
        if changes:
            _replace(path, after)
    return changes


def write_calibrations(path: Path, profile: str, device: str, calibrations: Mapping[str, Calibrated]) -> list[str]:
    """Add or replace what A/A measured, by claim, and return a line for each. Raises BaselineError."""
    with _locked(path):
        document = read(path, profile, device) if path.exists() else _empty(profile, device)
        rows = {claim: asdict(calibrated) for claim, calibrated in calibrations.items()}
        _replace(path, document | {"calibrations": document.get("calibrations", {}) | rows})
    return [
        f"{claim}: σ {calibrated.sigma:.4f} over {calibrated.pairs} pairs, τ {calibrated.tau:.4f} over "
        f"{calibrated.sessions} sessions" + _shared(calibrated)
        for claim, calibrated in calibrations.items()
    ]


def _shared(calibrated: Calibrated) -> str:
    rho = calibrated.intraclass
    return "" if rho is None else f", the pairs of a block correlate by {rho:.2f}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone with the file. Raises BaselineError when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(_lock_path(path)):
            yield
    except OSError as error:
        raise BaselineError(
            f"writing the baseline {path}",
            str(error),
            "make the folder writable, or choose one with --specdec-baselines",
        ) from None


def _new_entries(entries: Mapping[str, Any], records: Iterable[Record], recording: Recording) -> dict[str, Any]:
    chosen = [record for record in records if not (recording.only_new and record.claim in entries)]
    worse = {record.claim: words for record in chosen if (words := _worse(entries.get(record.claim), record))}
    if worse and not recording.accepted_regression:
        raise BaselineError(
            "updating the baseline",
            "these moved against their direction:\n" + "\n".join(worse.values()),
            'find out why; if it is right, say so: --specdec-accept-regression="WHY" is stored with the entry',
        )
    return {
        record.claim: _entry(record, recording, entries.get(record.claim), record.claim in worse) for record in chosen
    }


def _worse(before: Mapping[str, Any] | None, record: Record) -> str | None:
    """In words, where the value is worse than the stored one; None for a first record or another measurement."""
    if before is None or before["kind"] != "recorded" or before["comparability"] != asdict(record.comparability):
        return None
    old, new = before["value"], _stored(record.value)
    if _within_noise(before.get("contrast"), old, new):
        return None
    moved = {Direction.HIGHER: new < old, Direction.LOWER: new > old, Direction.EQUAL: new != old}[record.direction]
    if not moved:
        return None
    change = f" ({new / old - 1:+.2%})" if old else ""
    return f"{record.claim}: {old:g} → {new:g} {record.unit}{change}, {record.direction} is better"


def _within_noise(contrast: Mapping[str, Any] | None, old: float, new: float) -> bool:
    """A measured ratio moves a little with every session; what is counted does not."""
    if contrast is None or old <= 0 or new <= 0:
        return False
    return abs(math.log(new / old)) <= _NOISE_SIGMAS * math.hypot(contrast["se"], contrast["tau"])


def _entry(record: Record, recording: Recording, before: Mapping[str, Any] | None, accepted: bool) -> dict[str, Any]:
    if before is not None and before["kind"] != "recorded":
        raise BaselineError(
            f"recording {record.claim}",
            f"its entry is {before['kind']}: it was not measured here and is not replaced by a measurement",
            "record into another folder with --specdec-baselines, or rename the claim",
        )
    provenance = dict(recording.provenance)
    if accepted and before is not None:
        provenance["accepted_regression"] = {
            "reason": recording.accepted_regression,
            "value_before": before["value"],
            "build_before": before["provenance"]["build"],
        }
    row = {
        "kind": "recorded",
        "value": _stored(record.value),
        "unit": record.unit,
        "tolerance": record.tolerance,
        "direction": record.direction.value,
        "comparability": asdict(record.comparability),
        "provenance": provenance,
    }
    if record.contrast is not None:
        row["contrast"] = asdict(record.contrast) | {"cycles_per_s": list(record.contrast.cycles_per_s)}
    return row


def _stored(value: float) -> float:
    """Six decimals: below them the same counts on two machines may differ in the last bit."""
    return round(value, 6)


def _lock_path(path: Path) -> Path:
    """Outside the folder of baselines, which is under version control."""
    folder = Path(user_cache_dir("pytest-specdec")) / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}.lock"


def _empty(profile: str, device: str) -> dict[str, Any]:
    return {"schema": SCHEMA_VERSION, "profile": profile, "device": device, "entries": {}}


def _replace(path: Path, document: Mapping[str, Any]) -> None:
    unfinished = path.with_suffix(".partial")
    unfinished.write_text(json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
    unfinished.replace(path)
