"""Writes what a run measured into the baseline of its profile and device."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_dir

from pytest_specdec.baseline.entries import Comparability, Direction
from pytest_specdec.baseline.store import SCHEMA_VERSION, read
from pytest_specdec.errors import BaselineError
from pytest_specdec.records import Json

__all__ = ["Record", "write_records"]


@dataclass(frozen=True, slots=True)
class Record:
    """A value that a claim offers to the baseline."""

    claim: str
    value: float
    unit: str
    tolerance: float
    direction: Direction
    comparability: Comparability


def write_records(
    path: Path, profile: str, device: str, records: Iterable[Record], provenance: Mapping[str, Json], *, only_new: bool
) -> list[str]:
    """Add or replace entries, whole or not at all, and return the lines that say what changed.

    Raises BaselineError when the file that is there is not valid, or nothing can be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(_lock_path(path)):
            document = read(path, profile, device) if path.exists() else _empty(profile, device)
            changes = [_put(document["entries"], record, provenance, only_new) for record in records]
            _replace(path, document)
    except OSError as error:
        raise BaselineError(
            f"writing the baseline {path}",
            str(error),
            "make the folder writable, or choose one with --specdec-baselines",
        ) from None
    return [change for change in changes if change]


def _lock_path(path: Path) -> Path:
    """Outside the folder of baselines, which is under version control."""
    folder = Path(user_cache_dir("pytest-specdec")) / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}.lock"


def _empty(profile: str, device: str) -> dict[str, Any]:
    return {"schema": SCHEMA_VERSION, "profile": profile, "device": device, "entries": {}}


def _put(entries: dict[str, Any], record: Record, provenance: Mapping[str, Json], only_new: bool) -> str:
    before = entries.get(record.claim)
    if before is not None and only_new:
        return ""
    entries[record.claim] = {
        "kind": "recorded",
        "value": round(record.value, 6),
        "unit": record.unit,
        "tolerance": record.tolerance,
        "direction": record.direction.value,
        "comparability": asdict(record.comparability),
        "provenance": dict(provenance),
    }
    was = f"{before['value']:g} → " if before else "new: "
    return f"{record.claim}: {was}{record.value:g} {record.unit}"


def _replace(path: Path, document: Mapping[str, Any]) -> None:
    unfinished = path.with_suffix(".partial")
    unfinished.write_text(json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
    unfinished.replace(path)
