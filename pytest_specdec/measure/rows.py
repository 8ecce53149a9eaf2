"""From the cells of a panel to what a decision looks at: one number per prompt and block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_specdec.measure.pair_guards import pair_length_mismatch
from pytest_specdec.records import Cell, CellKey, Figure, Generation, Pair, Reason, Void
from pytest_specdec.stats.contrast import cycles_per_s_logs, pair_up, throughput_logs, tokens_per_cycle_logs
from pytest_specdec.stats.latency import mean_token_gap_ms, time_to_first_token_ms

__all__ = ["Row", "lengths_apart", "prompt_of", "rows_of", "seen_for", "usable_pairs"]

_DECODE = frozenset({Figure.THROUGHPUT, Figure.CYCLES_PER_S, Figure.TOKEN_GAP})
_MOST_APART = 0.5  # share of the pairs
# What is wrong with a reply says nothing about the time before its first token.
_OF_THE_REPLY = frozenset({
    Reason.DEGENERATE_LOOP, Reason.EARLY_STOP, Reason.TOOL_CALL, Reason.LENGTH_MISMATCH, Reason.DRAFTER_IDLE,
    Reason.SHORT_SESSION, Reason.COUNTERS_INCONSISTENT,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt in one block, compared. Natural-log units; above 0 the candidate is better.

    ``value`` is the whole log ratio, ``exact`` the part of it that greedy decoding fixes (tokens per cycle; 0 for
    figures that have no such part).
    """

    prompt: str
    block: int
    value: float
    exact: float = 0.0


def rows_of(
    sides: Sequence[tuple[CellKey, CellKey]], cells: Mapping[CellKey, Cell], figure: Figure, groups: Mapping[str, str]
) -> list[Row]:
    """The rows of one contrast, or of the first over the second where there are two, in the order measured.

    ``groups`` are the prompts that count, by id (a repetition counts with its prompt).
    """
    first, *others = [_rows(cells[reference], cells[candidate], figure, groups) for reference, candidate in sides]
    for other in others:
        known = {(row.prompt, row.block): row for row in other}
        first = [
            Row(row.prompt, row.block, row.value - match.value, row.exact - match.exact)
            for row in first
            if (match := known.get((row.prompt, row.block))) is not None
        ]
    return first


def usable_pairs(reference: Cell, candidate: Cell, figure: Figure, groups: Mapping[str, str]) -> list[Pair]:
    """The pairs that no guard has spoiled. Lengths must be alike only where the figure is of decoding."""
    pairs = _valid_pairs(reference, candidate, figure, groups)
    return [pair for pair in pairs if not (figure in _DECODE and pair_length_mismatch(pair))]


def lengths_apart(reference: Cell, candidate: Cell, figure: Figure, groups: Mapping[str, str]) -> Void | None:
    """The replies of most pairs have other lengths: those that are left are no fair sample of them."""
    pairs = _valid_pairs(reference, candidate, figure, groups) if figure in _DECODE else []
    apart = [void for pair in pairs if (void := pair_length_mismatch(pair)) is not None]
    if len(apart) <= _MOST_APART * len(pairs):
        return None
    return replace(apart[0], detail=f"{len(apart)} of {len(pairs)} pairs, for example: {apart[0].detail}")


def _valid_pairs(reference: Cell, candidate: Cell, figure: Figure, groups: Mapping[str, str]) -> list[Pair]:
    pairs = pair_up(seen_for(reference, figure), seen_for(candidate, figure))
    return [pair for pair in pairs if prompt_of(pair.prompt_id) in groups]


def seen_for(cell: Cell, figure: Figure) -> Cell:
    """The cell with the voids that count for this figure."""
    if figure in _DECODE:
        return cell
    generations = tuple(replace(g, voids=_kept(g.voids)) for g in cell.generations)
    return replace(cell, generations=generations, voids=_kept(cell.voids))


def _kept(voids: tuple[Void, ...]) -> tuple[Void, ...]:
    return tuple(void for void in voids if void.reason not in _OF_THE_REPLY)


def prompt_of(prompt_id: str) -> str:
    """A workload that repeats a prompt numbers it from the second time on."""
    return prompt_id.partition("#")[0]


def _rows(reference: Cell, candidate: Cell, figure: Figure, groups: Mapping[str, str]) -> list[Row]:
    pairs = usable_pairs(reference, candidate, figure, groups)
    values, exact = _logs(pairs, reference, candidate, figure)
    return [
        Row(pair.prompt_id, pair.block, value, part) for pair, value, part in zip(pairs, values, exact, strict=True)
    ]


def _logs(
    pairs: Sequence[Pair], reference: Cell, candidate: Cell, figure: Figure
) -> tuple[Sequence[float], Sequence[float]]:
    if figure is Figure.THROUGHPUT:
        return throughput_logs(pairs).tolist(), tokens_per_cycle_logs(pairs).tolist()
    none = [0.0] * len(pairs)
    if figure is Figure.CYCLES_PER_S:
        return cycles_per_s_logs(pairs).tolist(), none
    before, after = _by_place(reference), _by_place(candidate)
    places = [(pair.prompt_id, pair.block) for pair in pairs]
    return [_log_ratio(_cost(before[place], figure), _cost(after[place], figure)) for place in places], none


def _cost(generation: Generation, figure: Figure) -> float:
    """Milliseconds, less being better."""
    if figure is Figure.PREFILL:
        return generation.timings.prompt_ms / max(1, generation.timings.prompt_n)
    if figure is Figure.FIRST_TOKEN:
        return time_to_first_token_ms(generation)
    return mean_token_gap_ms([generation])


def _log_ratio(over: float, under: float) -> float:
    """NaN where there is no time to compare, which makes the decision void."""
    return math.log(over / under) if over > 0 and under > 0 else math.nan


def _by_place(cell: Cell) -> dict[tuple[str, int], Generation]:
    """The first of each, as ``pair_up`` takes it."""
    places: dict[tuple[str, int], Generation] = {}
    for generation in cell.generations:
        places.setdefault((generation.prompt_id, generation.block), generation)
    return places
