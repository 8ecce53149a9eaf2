"""What a baseline file holds, as frozen values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_specdec.records import Json, Reason

__all__ = [
    "Calibrated",
    "Comparability",
    "Direction",
    "Entry",
    "EntryKind",
    "KnownDeviation",
    "Lineage",
    "StoredContrast",
]


class EntryKind(StrEnum):
    """How far an entry reaches."""

    INVARIANT = "invariant"
    PUBLISHED = "published"
    RECORDED = "recorded"


class Direction(StrEnum):
    """Which way is better."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class Comparability:
    """What must be equal for a recorded value to mean anything: hashes of models and workloads, the arm's flags."""

    models: Mapping[str, str]
    workloads: Mapping[str, str]
    arm: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a behaviour is for a range of build numbers, both ends included; None is open."""

    name: str
    first_build: int | None
    last_build: int | None
    expect: str

    def covers(self, build: int | None) -> bool:
        """An unknown build belongs to the lineage that is still open."""
        if build is None:
            return self.last_build is None
        return (self.first_build or 0) <= build and (self.last_build is None or build <= self.last_build)


@dataclass(frozen=True, slots=True)
class KnownDeviation:
    """A bug that upstream has in a range of builds: named, and not held against a pull request.

    It is that bug only where the reason is the same and the finding's own words have what it ``says``, a regular
    expression; anything else that goes wrong with the claim is new.
    """

    claim: str  # a shell pattern over claim ids
    reason: str
    first_build: int | None
    last_build: int | None
    reference: str
    instead: str
    seen: str
    says: str = ""

    def explains(self, reason: Reason, words: str) -> bool:
        """Whether a failure with this reason and these words is the known one."""
        return reason == self.reason and re.search(self.says, words) is not None

    def covers(self, build: int | None) -> bool:
        """An unknown build is taken for a current one."""
        if build is None:
            return self.last_build is None
        return (self.first_build or 0) <= build and (self.last_build is None or build <= self.last_build)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What A/A measured of one contrast on this device; natural-log units.

    ``tau``: spread between sessions, with ``tau_dof`` degrees of freedom. ``intraclass``: correlation of the pairs of
    one block; None where each pair had servers of its own, so that nobody knows.
    """

    sigma: float
    pairs: int
    sessions: int
    mean: float
    mean_se: float
    lag1: float
    tau: float
    tau_dof: int
    date: str
    machine: str
    intraclass: float | None = None


@dataclass(frozen=True, slots=True)
class StoredContrast:
    """A recorded contrast. ``logs`` and ``exact_logs`` are log ratios by prompt, whole and of tokens per cycle.

    ``margin`` is the least slowdown that the record can resolve given its own error ``se`` and ``tau``.
    ``cycles_per_s`` are the medians of the reference and the candidate, which tell on which side a change is.
    ``intraclass``: correlation of the pairs of one block.
    """

    logs: Mapping[str, float]
    exact_logs: Mapping[str, float]
    cycles_per_s: tuple[float, float]
    pairs: int
    sigma: float
    se: float
    tau: float
    tau_dof: int
    margin: float
    intraclass: float = 0.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One claim's stored value. ``tolerance`` is relative; ``floor`` is the one-sided bound of a published entry.

    ``contrast``: of a recorded speed claim, what a decision needs beside the value.
    """

    claim: str
    kind: EntryKind
    value: float | None = None
    unit: str = ""
    tolerance: float | None = None
    direction: Direction = Direction.HIGHER
    floor: float | None = None
    source: str = ""
    caveat: str = ""
    device: str = ""
    lineages: tuple[Lineage, ...] = ()
    comparability: Comparability | None = None
    contrast: StoredContrast | None = None
    provenance: Mapping[str, Json] = field(default_factory=dict)
