"""One request, and all that was observed of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_specdec.records.json import Json
from pytest_specdec.records.status import Reason

__all__ = [
    "BASE_BUILD",
    "NEW_BUILD",
    "Alternative",
    "CellKey",
    "Counters",
    "FigureKind",
    "Generation",
    "Mode",
    "StopType",
    "Timings",
    "Void",
]


NEW_BUILD, BASE_BUILD = "new", "base"  # the build under test, and the one that it is compared with


class Mode(StrEnum):
    """How a panel is measured: exact claims on one thread, speed claims on the cores, alone, under the device lock."""

    EXACT = "exact"
    SPEED = "speed"


@dataclass(frozen=True, slots=True, order=True)
class CellKey:
    """Build role × arm × workload, in one mode."""

    mode: Mode
    workload: str
    arm: str
    build: str = NEW_BUILD

    @property
    def panel(self) -> tuple[Mode, str]:
        """The panel that this cell belongs to."""
        return self.mode, self.workload

    def __str__(self) -> str:
        return f"{self.mode}/{self.workload}/{self.arm}" + ("" if self.build == NEW_BUILD else f"/{self.build}")


class StopType(StrEnum):
    """Why a generation ended, in the server's own words."""

    EOS = "eos"
    LIMIT = "limit"
    WORD = "word"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Timings:
    """The server's own account of one request."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    predicted_n: int
    predicted_ms: float
    draft_n: int
    draft_n_accepted: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What ``/metrics`` counted between the end of the request before and the end of this one."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    predicted_tokens: int
    accepted_per_position: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """The second choice of the target at one position, from a run without a drafter.

    ``gap_nats`` is the log probability of the chosen token less that of ``token``.
    """

    token: int
    gap_nats: float


class FigureKind(StrEnum):
    """What a guard can spoil."""

    SPEED = "speed"
    ACCEPTANCE = "acceptance"
    LOSSLESS = "lossless"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Void:
    """Why some figures of a generation or a cell decide nothing."""

    reason: Reason
    figures: frozenset[FigureKind]
    detail: str


@dataclass(frozen=True, slots=True)
class Generation:
    """One request and everything observed of it.

    ``tokens`` are all returned token ids, the final end-of-text included. ``event_ns``, ``event_tokens`` and ``pieces``
    are the client's stamps of the stream's events, how many tokens each carried, and its text. ``alternatives`` has one
    entry per token where the request asked for them, else it is empty. ``counters`` is None where other requests were
    in flight. ``device`` is what the device said meanwhile, empty where nobody asked it.
    """

    cell: CellKey
    prompt_id: str
    block: int
    ordinal: int
    tokens: tuple[int, ...]
    stop_type: StopType
    truncated: bool
    timings: Timings
    counters: Counters | None
    started_ns: int
    ended_ns: int
    event_ns: tuple[int, ...]
    event_tokens: tuple[int, ...]
    pieces: tuple[str, ...]
    alternatives: tuple[Alternative, ...] = ()
    voids: tuple[Void, ...] = ()
    device: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def void_for(self, figure: FigureKind) -> Void | None:
        """The first guard that spoils this kind of figure."""
        return next((void for void in self.voids if figure in void.figures), None)

    @property
    def counted(self) -> Counters:
        """The counters. Raises ValueError where they were not read."""
        if self.counters is None:
            raise ValueError(f"{self.prompt_id}: other requests were in flight, so its counters were not read")
        return self.counters

    @property
    def complete(self) -> bool:
        """Whether every token was returned: a stream leaves out those that end inside a character."""
        return len(self.tokens) == self.timings.predicted_n

    @property
    def text(self) -> str:
        """The whole reply."""
        return "".join(self.pieces)

    def text_before(self, position: int) -> str:
        """The text of the tokens before ``position``."""
        seen = 0
        for number, count in enumerate(self.event_tokens):
            if seen + count > position:
                return "".join(self.pieces[:number])
            seen += count
        return self.text

    @property
    def cycles(self) -> int:
        """Passes of the target after prefill: the first token comes from prefill, an accepted one costs no pass."""
        return self.timings.predicted_n - 1 - self.timings.draft_n_accepted
