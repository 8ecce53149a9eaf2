"""The claims that suites declare, by having pytest collect them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_specdec.cli.shared import pytest_refused, run_quietly
from pytest_specdec.errors import SuiteError
from pytest_specdec.markers import FAMILIES, KINDS
from pytest_specdec.places import packaged

__all__ = ["DeclaredClaim", "Listing", "collect"]

_PLUGIN = "pytest_specdec.integrations.listing"
_NOTHING_COLLECTED = 5  # pytest's status where nothing was, or nothing is left


@dataclass(frozen=True, slots=True)
class DeclaredClaim:
    """One claim as its suite declares it; ``test`` is the id of its test."""

    id: str
    source: str
    kind: str
    arms: tuple[str, ...]
    over: str | None
    on: tuple[str, ...]
    study: bool
    test: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What was collected, for the profile of that name."""

    profile: str
    claims: tuple[DeclaredClaim, ...]


def collect(arguments: Sequence[str], paths: Sequence[str] = (), markers: str | None = None) -> Listing:
    """The claims below ``paths``, the packaged suites by default; ``arguments`` are pytest's own, ``markers`` its -m.

    Raises SuiteError when no claim has those markers, and with the end of pytest's output when the collection fails.
    """
    where = list(paths) or [str(packaged("suites"))]
    with tempfile.TemporaryDirectory(prefix="specdec-claims-") as folder:
        target = Path(folder) / "claims.json"
        chosen = [*arguments, *(["-m", markers] if markers else [])]
        words = ["--collect-only", "--quiet", "-p", _PLUGIN, "-p", "no:cacheprovider", *chosen, *where]
        done = run_quietly(words, {**os.environ, "SPECDEC_LISTING": str(target)})
        refused = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ") and "'-m'" in line]
        if markers and (refused or done.returncode == _NOTHING_COLLECTED):
            why = "\n".join([f"no claim matches -m {markers!r}", *refused])
            known = ", ".join((*FAMILIES, *KINDS, "study"))
            raise SuiteError(f"collecting the claims of {' '.join(where)}", why, f"known markers: {known}")
        if done.returncode != 0 or not target.exists():
            remedy = "correct the suites, or the options that were passed on to pytest"
            raise pytest_refused(f"collecting the claims of {' '.join(where)}", done, remedy)
        document = json.loads(target.read_text("utf-8"))
    return Listing(document["profile"], tuple(_claim(row) for row in document["claims"]))


def _claim(row: dict[str, object]) -> DeclaredClaim:
    over = row["over"]
    return DeclaredClaim(
        id=str(row["id"]),
        source=str(row["source"]),
        kind=str(row["kind"]),
        arms=_texts(row["arms"]),
        over=None if over is None else str(over),
        on=_texts(row["on"]),
        study=bool(row["study"]),
        test=str(row["test"]),
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
