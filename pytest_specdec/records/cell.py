"""What the generations of one build, arm and workload come to, and two such against each other."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_specdec.records.generation import CellKey, FigureKind, Generation, Void

__all__ = ["Cell", "Contrast", "Estimate", "MemoryUse", "Pair"]


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a server takes: memory of the device where that is a GPU, resident memory where it is the CPU.

    ``loaded_mib`` when it was ready, ``peak_mib`` the most until its last request ended.
    """

    loaded_mib: float
    peak_mib: float


@dataclass(frozen=True, slots=True)
class Cell:
    """All generations of one build, arm and workload.

    ``log`` is the server's, None when it is elsewhere; so is ``memory``, and where the device does not tell it.
    """

    key: CellKey
    generations: tuple[Generation, ...]
    log: str | None = None
    voids: tuple[Void, ...] = ()
    memory: MemoryUse | None = None

    def void_for(self, figure: FigureKind) -> Void | None:
        """The first guard that spoils this kind of figure."""
        return next((void for void in self.voids if figure in void.figures), None)

    @property
    def tokens(self) -> int:
        """Tokens predicted after each generation's first, which prefill gives."""
        return sum(max(0, g.timings.predicted_n - 1) for g in self.generations)

    def valid_for(self, figure: FigureKind) -> list[Generation]:
        """Its generations that no guard spoils for this kind of figure."""
        return [g for g in self.generations if g.void_for(figure) is None]

    @property
    def cycles(self) -> int:
        """Passes of the target after prefill."""
        return sum(g.cycles for g in self.generations)

    @property
    def drafts(self) -> int:
        """Cycles that verified a draft."""
        return sum(g.counters.drafts for g in self.generations if g.counters is not None)

    @property
    def drafted(self) -> int:
        """Tokens drafted."""
        return sum(g.timings.draft_n for g in self.generations)

    @property
    def accepted(self) -> int:
        """Drafted tokens that the target accepted."""
        return sum(g.timings.draft_n_accepted for g in self.generations)

    @property
    def tokens_per_cycle(self) -> float:
        """Tokens per pass of the target; NaN when there was no pass."""
        return self.tokens / self.cycles if self.cycles > 0 else float("nan")

    @property
    def acceptance(self) -> float:
        """Accepted share of the drafted tokens; NaN when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else float("nan")

    @property
    def draft_width(self) -> float:
        """Drafted tokens per drafting cycle; NaN when nothing was drafted."""
        return self.drafted / self.drafts if self.drafts else float("nan")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval, all three on the figure's own scale."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One prompt in one block, measured on both sides.

    ``tokens_*`` are decoded tokens after the first, ``cycles_*`` the target's passes, ``decode_ms_*`` the server's
    time for them.
    """

    prompt_id: str
    block: int
    tokens_reference: int
    tokens_candidate: int
    cycles_reference: int
    cycles_candidate: int
    decode_ms_reference: float
    decode_ms_candidate: float


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two cells of a panel, paired prompt by prompt. Ratios are candidate over reference; above 1 is better."""

    reference: CellKey
    candidate: CellKey
    pairs: tuple[Pair, ...]
    throughput: Estimate
    tokens_per_cycle: float
    cycles_per_s: Estimate
