"""Two cells to pairs, pairs to log ratios, and the cause of a change.

One convention throughout: ``reference`` is what the candidate is compared with, ratios are candidate over reference,
above 1 (log ratio above 0) is better. All arrays have shape (pairs,) and natural-log units unless they say otherwise.
For one pair ``log tokens per second = log tokens per cycle + log cycles per second``, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.records import Cell, Contrast, Estimate, FigureKind, Generation, Pair
from pytest_specdec.stats.robust import hodges_lehmann, ratio_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Logs = NDArray[np.float64]

__all__ = [
    "Cause",
    "Change",
    "anchored",
    "causes",
    "contrast",
    "cycles_per_s_logs",
    "exact_part_of",
    "pair_up",
    "per_prompt",
    "throughput_logs",
    "tokens_per_cycle_logs",
]

_DECIDES_SPEED = frozenset({FigureKind.SPEED})


def pair_up(reference: Cell, candidate: Cell, needs: Collection[FigureKind] = _DECIDES_SPEED) -> tuple[Pair, ...]:
    """The two cells paired by prompt and block, in the order in which the reference was measured.

    Left out is whatever a guard has voided for one of the figures in ``needs`` on either side: a generation, or all of
    them with their cell. A prompt that was measured twice in one block counts as measured first: a second try is no
    second chance.
    """
    if any(cell.void_for(figure) for cell in (reference, candidate) for figure in needs):
        return ()
    others = _by_place(candidate.generations, needs)
    first = _by_place(reference.generations, needs)
    return tuple(_pair(g, others[place]) for place, g in first.items() if place in others)


def _by_place(generations: Iterable[Generation], needs: Collection[FigureKind]) -> dict[tuple[str, int], Generation]:
    places: dict[tuple[str, int], Generation] = {}
    tried: set[tuple[str, int]] = set()
    for g in sorted(generations, key=lambda g: (g.block, g.ordinal)):
        place = (g.prompt_id, g.block)
        if place not in tried and not any(g.void_for(figure) for figure in needs):
            places[place] = g
        tried.add(place)
    return places


def _pair(reference: Generation, candidate: Generation) -> Pair:
    return Pair(
        prompt_id=reference.prompt_id,
        block=reference.block,
        tokens_reference=reference.timings.predicted_n - 1,
        tokens_candidate=candidate.timings.predicted_n - 1,
        cycles_reference=_cycles(reference),
        cycles_candidate=_cycles(candidate),
        decode_ms_reference=reference.timings.predicted_ms,
        decode_ms_candidate=candidate.timings.predicted_ms,
    )


def _cycles(generation: Generation) -> int:
    # A stop inside a draft leaves accepted tokens that were never predicted: the drafting cycles are then the floor.
    return max(generation.cycles, generation.counters.drafts if generation.counters else 0)


def throughput_logs(pairs: Sequence[Pair]) -> Logs:
    """Log ratio of tokens per second: what is compared where sampling makes tokens per cycle inexact."""
    return tokens_per_cycle_logs(pairs) + cycles_per_s_logs(pairs)


def tokens_per_cycle_logs(pairs: Sequence[Pair]) -> Logs:
    """Log ratio of tokens per cycle: exact for one prompt within one build and machine under greedy decoding."""
    return _log([p.tokens_candidate for p in pairs], [p.cycles_candidate for p in pairs]) - _log(
        [p.tokens_reference for p in pairs], [p.cycles_reference for p in pairs]
    )


def cycles_per_s_logs(pairs: Sequence[Pair]) -> Logs:
    """``log(seconds per cycle, reference) - log(seconds per cycle, candidate)``: the cost of a cycle."""
    return _log([p.decode_ms_reference for p in pairs], [p.cycles_reference for p in pairs]) - _log(
        [p.decode_ms_candidate for p in pairs], [p.cycles_candidate for p in pairs]
    )


def _log(over: Sequence[float], under: Sequence[float]) -> Logs:
    """``log(over / under)``; not finite where a count or a time is 0, which makes the decision void."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(np.array(over, dtype=np.float64)) - np.log(np.array(under, dtype=np.float64)))


def anchored(
    pairs: Sequence[Pair], expected: float | Mapping[str, float], *, exact: bool, exact_part: float | None = None
) -> Logs:
    """What the decision judges: log throughput ratio less the expected one, shape (pairs,); negative is slower.

    ``expected`` is the log ratio claimed: one number (0 for a build against itself, ``log(floor)`` for an ordering), or
    one for each prompt id, as a baseline entry keeps them. With one number and ``exact`` tokens per cycle (greedy) the
    exact part moves to the anchor and each pair carries the cost of its cycles alone,

        x_i = log cycles per second ratio_i - (expected - exact_part)

    so that acceptance that differs from prompt to prompt is not noise. ``exact_part`` is the mean over the workload's
    prompts of the log ratio of tokens per cycle, :func:`exact_part_of`. Give it from a pass over the whole workload:
    the default, from these pairs, moves while prompts are still being added. With one number per prompt acceptance
    cancels prompt by prompt; with sampling it cannot be told from noise and stays in: both are ``x_i = log throughput
    ratio_i - expected_i``. Raises KeyError for a prompt without an expected value.
    """
    if isinstance(expected, Mapping):
        return throughput_logs(pairs) - np.array([expected[_prompt(p)] for p in pairs], dtype=np.float64)
    if not exact or not pairs:
        return throughput_logs(pairs) - expected
    return cycles_per_s_logs(pairs) - (expected - (exact_part_of(pairs) if exact_part is None else exact_part))


def exact_part_of(pairs: Sequence[Pair]) -> float:
    """Mean over distinct prompts of the log ratio of tokens per cycle; NaN without pairs."""
    logs = list(per_prompt(pairs, tokens_per_cycle_logs(pairs)).values())
    return math.fsum(logs) / len(logs) if logs else math.nan


def per_prompt(pairs: Sequence[Pair], values: Sequence[float] | Logs) -> dict[str, float]:
    """Mean value of each distinct prompt, in order of first appearance.

    For a claim about a population of prompts: a prompt that was measured twice is still one prompt.
    """
    grouped: dict[str, list[float]] = {}
    for pair, value in zip(pairs, values, strict=True):
        grouped.setdefault(_prompt(pair), []).append(float(value))
    return {prompt: math.fsum(found) / len(found) for prompt, found in grouped.items()}


def _prompt(pair: Pair) -> str:
    return pair.prompt_id.partition("#")[0]  # a workload that repeats a prompt numbers it from the second time on


def contrast(reference: Cell, candidate: Cell) -> Contrast:
    """The contrast of two cells: ratios of throughput, of tokens per cycle and of cycles per second.

    Throughput and cycles per second are Hodges-Lehmann estimates over pairs with 95 % intervals; tokens per cycle is
    the geometric mean over distinct prompts. NaN where no pair is usable.
    """
    pairs = pair_up(reference, candidate)
    return Contrast(
        reference=reference.key,
        candidate=candidate.key,
        pairs=pairs,
        throughput=_ratio(throughput_logs(pairs)),
        tokens_per_cycle=math.exp(exact_part_of(pairs)),
        cycles_per_s=_ratio(cycles_per_s_logs(pairs)),
    )


def _ratio(logs: Logs) -> Estimate:
    return ratio_of(hodges_lehmann(logs))


class Cause(StrEnum):
    """What a change comes from."""

    TEXT_OR_ACCEPTANCE = "text or acceptance"
    COST_PER_CYCLE = "cost per cycle"
    BASE_DECODE = "base decode"
    PREFILL = "prefill"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Change:
    """What changed between two builds, or a build and its record: log ratios new over old, above 0 is better.

    ``tokens_per_cycle`` and ``cycles_per_s`` are the arm's, ``base_cycles_per_s`` that of the target without drafter.
    ``prefill_per_s``: prompt tokens per second. ``memory``: old over new MiB, so that growth is negative like the rest.
    """

    tokens_per_cycle: float = 0.0
    cycles_per_s: float = 0.0
    base_cycles_per_s: float = 0.0
    prefill_per_s: float = 0.0
    memory: float = 0.0


def causes(change: Change, tolerance: float) -> tuple[Cause, ...]:
    """What made it worse by more than ``tolerance`` (natural-log units), the worst first.

    The base's own decode is part of the cost of a drafted cycle, so what the arm lost with it is put down to the base
    and only the rest to the cycle. When many small losses add up to a slower arm and none alone exceeds
    ``tolerance``, the largest part of the throughput is named. Empty when nothing got worse by that much.
    """
    decode = {
        Cause.TEXT_OR_ACCEPTANCE: change.tokens_per_cycle,
        Cause.COST_PER_CYCLE: change.cycles_per_s - change.base_cycles_per_s,
        Cause.BASE_DECODE: change.base_cycles_per_s,
    }
    parts = decode | {Cause.PREFILL: change.prefill_per_s, Cause.MEMORY: change.memory}
    named = sorted((cause for cause, size in parts.items() if size < -tolerance), key=lambda cause: parts[cause])
    if not named and change.tokens_per_cycle + change.cycles_per_s < -tolerance:
        named = [min(decode, key=lambda cause: decode[cause])]
    return tuple(named)
