"""Reads the baseline files of one profile: its own device's records, what was published on any, and the invariants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pytest_specdec.baseline.entries import (
    Comparability,
    Direction,
    Entry,
    EntryKind,
    KnownDeviation,
    Lineage,
)
from pytest_specdec.errors import BaselineError
from pytest_specdec.records import Reason
from pytest_specdec.schema import problems

__all__ = ["ANY", "SCHEMA_VERSION", "Baselines", "load", "read"]

ANY = "*"
SCHEMA_VERSION = 1
_INVARIANTS = "any.json"


@dataclass(frozen=True, slots=True)
class Baselines:
    """Everything that is stored for one profile on one device."""

    device: str
    path: Path
    entries: Mapping[str, Entry]
    deviations: tuple[KnownDeviation, ...]

    def entry(self, claim: str) -> Entry | None:
        """The entry of that claim."""
        return self.entries.get(claim)

    @property
    def has_records(self) -> bool:
        """Whether anybody recorded on this device: then a record that is missing is a fault."""
        return any(entry.kind is EntryKind.RECORDED for entry in self.entries.values())

    def knows_arm(self, arm: str) -> bool:
        """Whether a record on this device was made with that arm."""
        suffix = f"[{arm}]"
        return any(e.kind is EntryKind.RECORDED and e.claim.endswith(suffix) for e in self.entries.values())

    def deviation(self, claim: str, build: int | None) -> KnownDeviation | None:
        """The known deviation that covers this claim on this build."""
        return next((d for d in self.deviations if fnmatchcase(claim, _literal(d.claim)) and d.covers(build)), None)


def load(directory: Path, profile: str, device: str) -> Baselines:
    """All entries that apply. A file that exists must be valid; one that does not exist is empty.

    Raises BaselineError: a corrupt baseline is never passed over.
    """
    own = directory / profile / f"{device}.json"
    entries: dict[str, Entry] = {}
    deviations: list[KnownDeviation] = []
    for path in sorted((directory / profile).glob("*.json")):
        for entry in _entries(read(path, profile, path.stem), path.stem):
            if entry.kind is EntryKind.PUBLISHED and path != own:
                entries.setdefault(entry.claim, entry)
    for path, of_profile, of_device in ((directory / _INVARIANTS, ANY, ANY), (own, profile, device)):
        if path.exists():
            document = read(path, of_profile, of_device)
            entries |= {entry.claim: entry for entry in _entries(document, of_device)}
            deviations += [_deviation(row, path) for row in document.get("known_deviations", ())]
    return Baselines(device=device, path=own, entries=entries, deviations=tuple(deviations))


def read(path: Path, profile: str, device: str) -> dict[str, Any]:
    """One file's document. Raises BaselineError when it is anything but a valid baseline of that profile and device."""
    document = _document(path)
    version = document.get("schema") if isinstance(document, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise _error(
            path, f"its schema is {version}, this version reads up to {SCHEMA_VERSION}", "update pytest-specdec"
        )
    wrong = problems(document, "pytest_specdec.baseline", "schema.json")
    if wrong:
        raise _error(path, "\n".join(wrong[:5]), "correct it, or restore it from version control")
    for name, wanted in (("profile", profile), ("device", device)):
        if document[name] != wanted:
            raise _error(
                path,
                f"it says {name} {document[name]!r}, its place says {wanted!r}",
                "move it to <profile>/<device>.json, or correct it",
            )
    return dict(document)


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise _error(path, str(error), "make it readable") from None
    except ValueError as error:
        raise _error(path, f"it is not JSON: {error}", "restore it from version control") from None


def _error(path: Path, why: str, remedy: str) -> BaselineError:
    return BaselineError(f"reading the baseline {path}", why, remedy)


def _entries(document: Mapping[str, Any], device: str) -> list[Entry]:
    return [_entry(claim, row, device) for claim, row in document["entries"].items()]


def _entry(claim: str, row: Mapping[str, Any], device: str) -> Entry:
    comparability = row.get("comparability")
    return Entry(
        claim=claim,
        kind=EntryKind(row["kind"]),
        value=row.get("value"),
        unit=row.get("unit", ""),
        tolerance=row.get("tolerance"),
        direction=Direction(row.get("direction", "higher")),
        floor=row.get("floor"),
        source=row.get("source", ""),
        caveat=row.get("caveat", ""),
        device=device,
        lineages=tuple(
            Lineage(lineage["name"], lineage.get("first_build"), lineage.get("last_build"), lineage["expect"])
            for lineage in row.get("lineages", ())
        ),
        comparability=Comparability(**comparability) if comparability else None,
        provenance=row.get("provenance", {}),
    )


def _deviation(row: Mapping[str, Any], path: Path) -> KnownDeviation:
    if row["reason"] not in set(Reason):
        raise _error(path, f"known deviation of {row['claim']}: no such reason {row['reason']!r}", "use a reason code")
    return KnownDeviation(**{"first_build": None, "last_build": None, **row})


def _literal(pattern: str) -> str:
    """Claim ids carry their arm in brackets, which are no character class here."""
    return pattern.replace("[", "[[]")
