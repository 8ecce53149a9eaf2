"""Reads the baseline files of one profile: its own device's records, what was published on any, and the invariants."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pytest_specdec.baseline.entries import (
    Calibrated,
    Comparability,
    Direction,
    Entry,
    EntryKind,
    KnownDeviation,
    Lineage,
    StoredContrast,
)
from pytest_specdec.baseline.migrate import SCHEMA_VERSION, migrated
from pytest_specdec.errors import BaselineError
from pytest_specdec.places import baselines_folder, packaged
from pytest_specdec.records import Json, Reason
from pytest_specdec.schema import problems

__all__ = ["ANY", "INVARIANTS", "Baselines", "chosen_folder", "load", "parse", "place_of", "read", "refuse_packaged"]

ANY = "*"
INVARIANTS = "any.json"


@dataclass(frozen=True, slots=True)
class Baselines:
    """Everything that is stored for one profile on one device.

    ``published`` is what an entry of the device itself may stand before: what holds where the record does not apply.
    """

    device: str
    path: Path
    entries: Mapping[str, Entry]
    deviations: tuple[KnownDeviation, ...]
    published: Mapping[str, Entry] = field(default_factory=dict)
    calibrations: Mapping[str, Calibrated] = field(default_factory=dict)

    def entry(self, claim: str) -> Entry | None:
        """The entry of that claim."""
        return self.entries.get(claim)

    @property
    def has_records(self) -> bool:
        """Whether anybody recorded on this device: then a record that is missing is a fault."""
        return any(entry.kind is EntryKind.RECORDED for entry in self.entries.values())

    @property
    def missing(self) -> str:
        """That this device has no file of the profile here, in words; empty where it has one."""
        return "" if self.path.exists() else f"no baseline for {self.device} in {self.path.parent}"

    @property
    def has_speed_records(self) -> bool:
        """Whether anybody recorded a contrast on this device."""
        return any(entry.contrast is not None for entry in self.entries.values())

    def knows_arm(self, arm: str) -> bool:
        """Whether a record on this device was made with that arm."""
        suffix = f"[{arm}]"
        return any(e.kind is EntryKind.RECORDED and e.claim.endswith(suffix) for e in self.entries.values())

    @property
    def judges_the_profile(self) -> bool:
        """Whether values are stored for this profile, recorded here or published."""
        return any(entry.kind is not EntryKind.INVARIANT for entry in self.entries.values())

    def deviations_of(self, claim: str, build: int | None) -> list[KnownDeviation]:
        """The known deviations that cover this claim on this build."""
        return [d for d in self.deviations if fnmatchcase(claim, _literal(d.claim)) and d.covers(build)]


def chosen_folder(named: Path | None, root: Path, *, may_be_new: bool = False) -> Path:
    """The folder of baselines that the user named, else that of the project at ``root`` or of the package.

    ``may_be_new``: this run writes into it. Raises BaselineError where a folder that was named holds no baselines: a
    misspelled one would compare with nothing, and nothing is ever red for that.
    """
    if named is None:
        return baselines_folder(root)
    if may_be_new or (named / INVARIANTS).is_file() or next(named.glob("*/*.json"), None) is not None:
        return named
    why = "it holds no <profile>/<device>.json" if named.is_dir() else "there is no such folder"
    beside = [path.name for path in named.absolute().parent.glob("*") if path.is_dir()]
    near = difflib.get_close_matches(named.name, [name for name in beside if name != named.name], n=1)
    hint = f"did you mean {named.with_name(near[0])}? Else correct" if near else "correct"
    raise BaselineError(
        f"reading the baselines in {named} (--specdec-baselines)",
        why,
        f"{hint} the path, or record into it with --specdec-update-baseline",
    )


def load(directory: Path, profile: str, device: str) -> Baselines:
    """All entries that apply. A file that exists must be valid; one that does not exist is empty.

    The invariants and the known deviations are the folder's own, or those that the package brings: a folder in which
    somebody recorded a device of theirs is not without them.
    Raises BaselineError: a corrupt baseline is never passed over.
    """
    own = directory / profile / f"{device}.json"
    published: dict[str, Entry] = {}
    entries: dict[str, Entry] = {}
    deviations: list[KnownDeviation] = []
    calibrations: dict[str, Calibrated] = {}
    for path in sorted((directory / profile).glob("*.json")):
        for entry in _entries(read(path, profile, path.stem), path.stem):
            if entry.kind is EntryKind.PUBLISHED and path != own:
                published.setdefault(entry.claim, entry)
    entries |= published
    invariants = directory / INVARIANTS
    if not invariants.exists():
        invariants = packaged("baselines") / INVARIANTS
    for path, of_profile, of_device in ((invariants, ANY, ANY), (own, profile, device)):
        if path.exists():
            document = read(path, of_profile, of_device)
            entries |= {entry.claim: entry for entry in _entries(document, of_device)}
            deviations += [_deviation(row, path) for row in document.get("known_deviations", ())]
            calibrations |= {claim: Calibrated(**row) for claim, row in document.get("calibrations", {}).items()}
    return Baselines(device, own, entries, tuple(deviations), published, calibrations)


def refuse_packaged(folder: Path, root: Path) -> None:
    """Raises BaselineError where a project is about to write into a folder that is not its own."""
    if folder.parent != root:
        raise BaselineError(
            f"writing into the baselines {folder}",
            "they are those of the package: its next update replaces them, and no other project is to see yours",
            f"make a folder baselines/ in {root}, or name one with --specdec-baselines=DIR",
        )


def place_of(path: Path) -> tuple[str, str]:
    """The profile and the device that a file's place says: ``<profile>/<device>.json``, or ``any.json`` for all."""
    return (ANY, ANY) if path.name == INVARIANTS else (path.absolute().parent.name, path.stem)


def read(path: Path, profile: str, device: str) -> dict[str, Any]:
    """One file's document in the current schema; the file itself is left as it is.

    Raises BaselineError when it is anything but a valid baseline of that profile and device.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _error(path, str(error), "make it readable, or restore it from version control") from None
    document = parse(text, path)
    for name, wanted in (("profile", profile), ("device", device)):
        if document[name] != wanted:
            raise _error(
                path,
                f"it says {name} {document[name]!r}, its place says {wanted!r}",
                "move it to <profile>/<device>.json, or correct it",
            )
    return document


def parse(text: str, origin: Path | str) -> dict[str, Any]:
    """A document in the current schema from the text of a file; ``origin`` names it. Raises BaselineError."""
    if not text.strip():
        raise _error(origin, "it is empty", "restore it from version control, or delete it and record anew")
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise _error(origin, f"it is not JSON: {error}", "restore it from version control") from None
    version = document.get("schema") if isinstance(document, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise _error(
            origin, f"its schema is {version}, this version reads up to {SCHEMA_VERSION}", "update pytest-specdec"
        )
    document = migrated(document)
    wrong = problems(document, "pytest_specdec.baseline", "schema.json")
    if wrong:
        raise _error(origin, "\n".join(wrong[:5]), "correct it, or restore it from version control")
    return dict(document)


def _refuse_constant(word: str) -> float:
    """Nothing is less than NaN and nothing more: a record of it would hold whatever is measured."""
    raise ValueError(f"{word} is no number to compare with")


def _without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """A merge can leave two entries of one name, of which JSON readers would silently take the last."""
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"it has {', '.join(map(repr, twice))} more than once")
    return dict(pairs)


def _error(path: Path | str, why: str, remedy: str) -> BaselineError:
    return BaselineError(f"reading the baseline {path}", why, remedy)


def _entries(document: Mapping[str, Any], device: str) -> list[Entry]:
    return [_entry(claim, row, device) for claim, row in document["entries"].items()]


def _entry(claim: str, row: Mapping[str, Any], device: str) -> Entry:
    comparability, contrast = row.get("comparability"), row.get("contrast")
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
        contrast=StoredContrast(**{**contrast, "cycles_per_s": tuple(contrast["cycles_per_s"])}) if contrast else None,
        provenance=row.get("provenance", {}),
    )


def _deviation(row: Mapping[str, Any], path: Path) -> KnownDeviation:
    if row["reason"] not in set(Reason):
        raise _error(path, f"known deviation of {row['claim']}: no such reason {row['reason']!r}", "use a reason code")
    try:
        re.compile(row.get("says", ""))
    except re.error as error:
        why = f"known deviation of {row['claim']}: {row['says']!r} is no regular expression: {error}"
        raise _error(path, why, "correct it") from None
    return KnownDeviation(**{"first_build": None, "last_build": None, **row})


def _literal(pattern: str) -> str:
    """Claim ids carry their arm in brackets, which are no character class here."""
    return pattern.replace("[", "[[]")
