"""What a test asserts, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_specdec.records.generation import BASE_BUILD, NEW_BUILD, CellKey, Mode
from pytest_specdec.records.json import Json
from pytest_specdec.records.status import Reason, Status

__all__ = ["Claim", "ClaimKind", "Figure", "Finding", "Verdict"]


class ClaimKind(StrEnum):
    """What sort of assertion a claim is; also the name of its selection marker."""

    EXACT = "exact"
    LOSSLESS = "lossless"
    SPEED = "speed"
    MEMORY = "memory"


class Figure(StrEnum):
    """What a contrast compares. Ratios are candidate over reference of a rate, so above 1 is better for all of them."""

    THROUGHPUT = "throughput"  # decoded tokens per second, by the server's clock
    CYCLES_PER_S = "cycles_per_s"  # passes of the target per second
    FIRST_TOKEN = "first_token"  # 1 / time to first token, by the client's clock
    TOKEN_GAP = "token_gap"  # 1 / mean inter-token latency, by the client's clock
    PREFILL = "prefill"  # prompt tokens per second, by the server's clock


@dataclass(frozen=True, slots=True)
class Claim:
    """What a test declares before anything is measured.

    ``group`` restricts a contrast to one part of its workload. With ``against`` it is a ratio of two contrasts: that of
    the arm over ``over``, and that of ``against`` over ``against_over``, each over its own target's base. A claim
    ``across_builds`` needs its cells of the base build too.
    """

    id: str
    source: str
    kind: ClaimKind
    arms: tuple[str, ...]
    on: tuple[str, ...] = ()
    over: str | None = None
    study: bool = False
    server_flags: Mapping[str, Json] = field(default_factory=dict)
    figure: Figure = Figure.THROUGHPUT
    group: str = ""
    against: str | None = None
    against_over: str | None = None
    across_builds: bool = False

    @property
    def mode(self) -> Mode:
        """The mode of its panels."""
        return Mode.SPEED if self.kind is ClaimKind.SPEED else Mode.EXACT

    @property
    def involved(self) -> tuple[str, ...]:
        """Every arm that it names, the reference first."""
        named = (self.over, *self.arms, self.against_over, self.against)
        return tuple(dict.fromkeys(arm for arm in named if arm))

    @property
    def cells(self) -> tuple[CellKey, ...]:
        """Every cell that it needs, the reference first."""
        builds = (BASE_BUILD, NEW_BUILD) if self.across_builds else (NEW_BUILD,)
        return tuple(
            CellKey(self.mode, name, arm, build) for name in self.on for arm in self.involved for build in builds
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What one comparison came to; a claim's verdict is made of its findings.

    ``measured`` and ``expected`` are one line each, for a person; ``detail`` may be several.
    """

    status: Status
    reason: Reason
    measured: str
    expected: str
    detail: str = ""
    remedy: str = ""
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one claim, with what a reader needs to act on it."""

    claim: str
    status: Status
    kind: ClaimKind
    reason: Reason
    measured: str
    expected: str
    source: str
    detail: str = ""
    remedy: str = ""
    evidence: Mapping[str, Json] = field(default_factory=dict)
