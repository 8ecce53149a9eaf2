"""Guards over what a panel measured as a whole: its pairs, its residuals, and its drift.

Each is a pure function that returns the ``Void`` or None. Those that test a statistic ask for 3.5 standard errors:
chance alone gives them to one sound contrast in 4,300 (two-sided: 2,150), so few runs of 40 claims are lost to them.
"""

from __future__ import annotations

import math
import sys
from itertools import groupby, pairwise
from statistics import fmean, median, variance
from typing import TYPE_CHECKING

from pytest_specdec.device.climate import clock_drift as compared_clocks
from pytest_specdec.device.summary import Summary
from pytest_specdec.records import Cell, FigureKind, Generation, Pair, Reason, Void
from pytest_specdec.stats.blocks import by_block, intraclass_correlation

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "autocorrelated",
    "blocks_apart",
    "clock_drift",
    "clocks_apart",
    "noisy_session",
    "order_effect",
    "pair_length_mismatch",
]

CERTAIN = 3.5  # standard errors
MOST_LENGTH_RATIO = 2.0  # the cost of a cycle grows with depth by 13 % over 35K tokens, so within twofold by little
MOST_DRIFT = (
    0.25  # counterbalanced blocks cancel that much (simulated); speeds of a machine that changed more are nobody's
)
MOST_ORDER_SHARE = 0.25  # of the margin: with an odd number of blocks some of the effect is left in the mean
MOST_LAG1 = 0.15  # simulated, 40 null claims: at 0.1 false alarms reach 1.1 % of runs, at 0.2 6 %, at 0.3 19 %
MOST_SPREAD = 1.5  # of the A/A sigma: the cap was planned for that sigma
CLIP_SIGMAS = 3.0  # as the decision clips pairs: one hiccup makes no noisy session
LEAST_VALUES = 6  # below it nothing is decided either

_SPEED = frozenset({FigureKind.SPEED})


def pair_length_mismatch(pair: Pair) -> Void | None:
    """The two sides decoded lengths that differ more than twofold, so at other depths: speed.

    Forks at near-ties change lengths somewhat and often; that is no reason.
    """
    shorter, longer = sorted((pair.tokens_reference, pair.tokens_candidate))
    if longer <= MOST_LENGTH_RATIO * shorter:
        return None
    lengths = f"{pair.tokens_reference} tokens against {pair.tokens_candidate}"
    return Void(Reason.LENGTH_MISMATCH, _SPEED, f"{lengths} on prompt {pair.prompt_id}")


def order_effect(blocks: Sequence[int], values: Sequence[float], margin: float) -> Void | None:
    """In A/A whoever is measured first differs from whoever is second: speed.

    ``values``: A/A log ratios; ``blocks``: of the same pairs, every second one measured in reverse order. The effect is
    half the difference of the two means of block means; it must be certain (Welch's statistic) and matter against
    ``margin``.
    """
    means = _block_means(values, blocks)
    even = [mean for block, mean in means if block % 2 == 0]
    odd = [mean for block, mean in means if block % 2]
    if min(len(even), len(odd)) < LEAST_VALUES:
        return None
    effect = (fmean(even) - fmean(odd)) / 2
    error = math.sqrt(variance(even) / len(even) + variance(odd) / len(odd)) / 2
    certain = _student(CERTAIN, min(len(even), len(odd)) - 1)
    if abs(effect) <= max(MOST_ORDER_SHARE * margin, certain * error):
        return None
    return Void(Reason.ORDER_EFFECT, _SPEED, f"the order of the arms makes {effect:+.1%} in A/A")


def _student(z: float, dof: int) -> float:
    """About Student's quantile where the normal one is ``z``: the first term of Cornish and Fisher's expansion."""
    return z + (z**3 + z) / (4 * dof)


def _block_means(values: Sequence[float], blocks: Sequence[int]) -> list[tuple[int, float]]:
    """Number and mean of each block, in the order measured."""
    means = [float(group.mean()) for group in by_block(values, blocks)]
    return list(zip((block for block, _ in groupby(blocks)), means, strict=True))


def autocorrelated(residuals: Sequence[float], blocks: Sequence[int]) -> Void | None:
    """Consecutive blocks of A/A residuals, in the order measured, go together: they are fewer than they seem, speed.

    What the pairs of one block share is counted (:func:`blocks_apart`). Of ``n`` independent block means the
    correlation has a standard error of ``1/sqrt(n)``.
    """
    means = [mean for _, mean in _block_means(residuals, blocks)]
    n = len(means)
    if n < LEAST_VALUES:
        return None
    centre = fmean(means)
    away = [mean - centre for mean in means]
    squares = math.fsum(r * r for r in away)
    rho = math.fsum(a * b for a, b in pairwise(away)) / squares if squares else 0.0
    if rho <= max(MOST_LAG1, CERTAIN / math.sqrt(n)):
        return None
    return Void(Reason.AUTOCORRELATED, _SPEED, f"consecutive blocks correlate by {rho:.2f} over {n}")


def blocks_apart(residuals: Sequence[float], blocks: Sequence[int], intraclass: float) -> Void | None:
    """The pairs of a block share more than the ``intraclass`` that counted them, so they are worth less: speed.

    With mean squares between and within blocks of about equal size ``k``, and correlation ``rho``, ``(B / W) (1 - rho)
    / (1 + (k - 1) rho)`` is distributed as F; its logarithm has a variance of about ``2 / dof + 2 / dof``.
    """
    groups = by_block(residuals, blocks)
    found = intraclass_correlation(groups)
    count, n = len(groups), len(residuals)
    if found is None or count < LEAST_VALUES or found <= intraclass + MOST_LAG1:
        return None
    size = n / count
    excess = math.log(_mean_square_ratio(found, size) / _mean_square_ratio(intraclass, size))
    if excess <= CERTAIN * math.sqrt(2 / (count - 1) + 2 / (n - count)):
        return None
    detail = f"the pairs of a block correlate by {found:.2f} over {count} blocks; {intraclass:.2f} were reckoned with"
    return Void(Reason.AUTOCORRELATED, _SPEED, detail)


def _mean_square_ratio(intraclass: float, size: float) -> float:
    """Mean square between blocks over that within: ``(1 + (k - 1) rho) / (1 - rho)``."""
    return (1 + (size - 1) * intraclass) / max(1 - intraclass, sys.float_info.epsilon)


def noisy_session(values: Sequence[float], sigma: float, worth: float | None = None) -> Void | None:
    """The pairs spread much more than the A/A pairs whose ``sigma`` planned them: speed.

    Clipped about their median; few pairs must exceed what chance makes of ``sigma`` as well: ``sigma`` times the square
    root of chi-square over its degrees of freedom, after E. B. Wilson and M. M. Hilferty (1931). ``worth``: the
    independent pairs that they are worth, where that is not their number.
    """
    n = len(values) if worth is None else worth
    if len(values) < LEAST_VALUES or n <= 1:
        return None
    centre = median(values)
    spread = math.sqrt(variance([min(max(v - centre, -CLIP_SIGMAS * sigma), CLIP_SIGMAS * sigma) for v in values]))
    nine_dof = 9 * (n - 1)
    by_chance = (1 - 2 / nine_dof + CERTAIN * math.sqrt(2 / nine_dof)) ** 1.5
    if spread <= max(MOST_SPREAD, by_chance) * sigma:
        return None
    return Void(Reason.NOISY_SESSION, _SPEED, f"pairs spread by {spread:.1%} where A/A had {sigma:.1%}")


def clock_drift(cells: Sequence[Cell]) -> Void | None:
    """All arms of a panel became slower, or faster, as it went on: speed.

    Per cell the trend of the log milliseconds per cycle over time (slope of P. K. Sen, 1968, times the span) and
    Kendall's statistic for it; fires when all trends have one sign, the least exceeds 25 % and their statistics
    together are certain. An arm that changed alone is no drift. Prompts that come again are compared with themselves.
    """
    trends = [_trend(cell) for cell in cells]
    known = [trend for trend in trends if trend is not None]
    if not known or len(known) < len(trends):
        return None
    drift = min((change for change, _ in known), key=abs)
    certainty = math.fsum(z for _, z in known) / math.sqrt(len(known))
    together = len({math.copysign(1, change) for change, _ in known}) == 1
    if not (together and abs(drift) > math.log1p(MOST_DRIFT) and abs(certainty) > CERTAIN):
        return None
    return Void(Reason.CLOCK_DRIFT, _SPEED, f"by the end a cycle took {math.expm1(drift):+.0%} or more, on all arms")


def clocks_apart(reference: Cell, candidate: Cell) -> Void | None:
    """The two sides of a contrast ran at other clocks, and no power limit explains it: speed."""
    unexplained = compared_clocks(_clocks(reference), _clocks(candidate)).unexplained
    return Void(Reason.CLOCK_DRIFT, _SPEED, f"{candidate.key.arm}: {unexplained}") if unexplained else None


def _clocks(cell: Cell) -> Summary:
    """The clocks of a cell's generations together."""
    told = [g.device for g in cell.valid_for(FigureKind.SPEED) if g.device]

    def middle(name: str) -> float | None:
        known = [row[name] for row in told if row.get(name) is not None]
        return median(known) if known else None

    capped = [row.get("power_capped_share") or 0.0 for row in told]
    return Summary(
        len(told), sm_clock_mhz=middle("sm_clock_mhz"), memory_clock_mhz=middle("memory_clock_mhz"),
        power_capped_share=max(capped, default=None),
    )  # fmt: skip


def _trend(cell: Cell) -> tuple[float, float] | None:
    """Change of the log time per cycle from first to last generation, and Kendall's z for it; None without figures."""
    usable = [g for g in cell.valid_for(FigureKind.SPEED) if g.cycles > 0 and g.timings.predicted_ms > 0]
    if len(usable) < LEAST_VALUES:
        return None
    at = [float(g.started_ns) for g in usable]
    logs = _without_prompts(usable, [math.log(g.timings.predicted_ms / g.cycles) for g in usable])
    rises = [(logs[j] - logs[i]) / (at[j] - at[i]) for j in range(len(at)) for i in range(j) if at[j] != at[i]]
    if not rises:
        return None
    n = len(at)
    concordance = sum((rise > 0) - (rise < 0) for rise in rises)
    z = concordance / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    return median(rises) * (max(at) - min(at)), z


def _without_prompts(generations: Sequence[Generation], logs: Sequence[float]) -> list[float]:
    """Each log less the mean of its prompt, when every prompt was measured more than once; else as it is."""
    by_prompt: dict[str, list[float]] = {}
    for g, value in zip(generations, logs, strict=True):
        by_prompt.setdefault(_prompt(g), []).append(value)
    if min(map(len, by_prompt.values())) < 2:
        return list(logs)
    return [value - fmean(by_prompt[_prompt(g)]) for g, value in zip(generations, logs, strict=True)]


def _prompt(generation: Generation) -> str:
    return generation.prompt_id.partition("#")[0]  # a workload that repeats a prompt numbers it from the second time on
