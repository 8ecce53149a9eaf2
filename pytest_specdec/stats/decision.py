"""Anchored log ratios to pass, fail, inconclusive or void, valid at whatever pair one asks.

Tested first is the pass, then the fail, on the interval of :mod:`pytest_specdec.stats.rule`, which cites its source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.records import Estimate
from pytest_specdec.stats.blocks import design_effects
from pytest_specdec.stats.robust import hodges_lehmann, ratio_of
from pytest_specdec.stats.rule import LEAST_PAIRS, Rule, half_widths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Decision", "Outcome", "decide", "first_terminal"]

CLIP_SIGMAS = 3.0  # a hiccup counts as a 3 sigma pair, whatever it was
FLOOR_SHARE = 0.25  # of sigma: a few pairs that happen to agree are no proof of a quiet machine

_REJECTED = (ArithmeticError, ValueError, TypeError)


class Outcome(StrEnum):
    """What the evidence so far says."""

    PASS = "pass"
    FAIL = "fail"
    OPEN = "open"  # go on measuring
    INCONCLUSIVE = "inconclusive"  # the cap is reached
    VOID = "void"  # the arithmetic cannot be trusted


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, at which pair, on what figures.

    ``n``: pairs used. ``worth``: the independent pairs that they are worth, fewer where blocks share their servers.
    ``mean``: of the clipped anchored log ratios, negative is slower. ``pass_width`` and
    ``fail_width``: the half-widths that the two tests used, stored error included, natural-log units. ``estimate``:
    Hodges-Lehmann estimate over the same raw pairs as a ratio to the anchor, above 1 is faster, with its 95 % interval
    for one look; it is reported and decides nothing. ``cap``: pairs at which the rule would have stopped.
    """

    outcome: Outcome
    n: int
    worth: float
    mean: float
    pass_width: float
    fail_width: float
    estimate: Estimate
    cap: int
    why: str


@dataclass(frozen=True, slots=True)
class _Looks:
    """When one looks: ``n`` pairs, worth so many independent ones. Both of shape (looks,), ascending."""

    n: NDArray[np.int64]
    worth: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Path:
    """Mean and both widths after each look, shape (rows, looks)."""

    mean: NDArray[np.float64]
    pass_width: NDArray[np.float64]
    fail_width: NDArray[np.float64]


def _path(values: NDArray[np.float64], rule: Rule, looks: _Looks) -> _Path:
    clipped = np.clip(values, rule.delta - CLIP_SIGMAS * rule.sigma, CLIP_SIGMAS * rule.sigma)
    n, at = looks.n, looks.n - 1
    mean = np.cumsum(clipped, axis=1)[:, at] / n
    # About their own mean n pairs spread by n - deff variances, since the mean takes deff / n of one from each.
    variance = (np.cumsum(clipped**2, axis=1)[:, at] - n * mean**2) / (n - n / looks.worth)
    spread = np.sqrt(np.maximum(variance, (FLOOR_SHARE * rule.sigma) ** 2))
    return _Path(
        mean,
        half_widths(looks.worth, spread, 2 * rule.beta, rule.c2) + rule.pass_reach,
        half_widths(looks.worth, spread, 2 * rule.fail_tail, rule.c2) + rule.fail_reach,
    )


def _verdicts(path: _Path, rule: Rule) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    passed = path.mean - path.pass_width > rule.delta
    failed = ~passed & (path.mean + path.fail_width < 0)
    return passed, failed


def first_terminal(
    values: NDArray[np.float64], rule: Rule, looks: Sequence[int] | None = None, blocks: Sequence[int] | None = None
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """For each row of ``values`` (rows, pairs): 1 pass, -1 fail, 0 neither, and the number of pairs at that look.

    Rows with neither get the last look. Looks and blocks are those of :func:`decide`, alike for all rows. Raises
    ValueError where there is no look.
    """
    at = _looks(values.shape[1], rule, looks, blocks)
    passed, failed = _verdicts(_path(values, rule, at), rule)
    ended = passed | failed
    first = np.where(ended.any(axis=1), ended.argmax(axis=1), len(at.n) - 1)
    row = np.arange(len(values))
    sign = passed[row, first].astype(np.int8) - failed[row, first].astype(np.int8)
    return sign, at.n[first]


def _looks(pairs: int, rule: Rule, wanted: Sequence[int] | None, blocks: Sequence[int] | None) -> _Looks:
    """The looks that count: within the evidence, once it is worth ``LEAST_PAIRS``, none after the one at the cap."""
    given = range(LEAST_PAIRS, pairs + 1) if wanted is None else sorted(set(wanted))
    n = np.array([look for look in given if LEAST_PAIRS <= look <= pairs], dtype=np.int64)
    worth = n / design_effects(range(pairs) if blocks is None else blocks, n, rule.intraclass)
    enough = worth >= LEAST_PAIRS
    # The first at the cap counts, those after it do not.
    counts = enough & (np.cumsum(enough & (n >= rule.cap)) <= (n >= rule.cap))
    if not counts.any():
        raise ValueError(f"no look at {pairs} pairs: the first is when they are worth {LEAST_PAIRS}")
    return _Looks(n[counts], worth[counts])


def decide(
    values: Sequence[float], rule: Rule, looks: Sequence[int] | None = None, blocks: Sequence[int] | None = None
) -> Decision:
    """Judge anchored log ratios in the order measured; negative is slower than the anchor.

    The evidence is replayed look by look and the first look that passes or fails stands, so that more pairs, measured
    for another claim or after a resume, never overturn a verdict. ``looks`` are numbers of pairs, by default every
    one; give the ends of the counterbalanced rounds, so that no look sees half of one. ``blocks`` says of each pair
    which servers it shares with others, by default none: pairs of one block correlate by ``rule.intraclass`` and count
    as fewer (:func:`pytest_specdec.stats.blocks.design_effects`). Never raises for a figure: whatever cannot be
    computed is void.
    """
    try:
        with np.errstate(all="raise", under="ignore"):
            return _decide(np.asarray(values, dtype=np.float64), rule, looks, blocks)
    except _REJECTED as error:
        return _without_figures(Outcome.VOID, len(values), 0, f"the arithmetic failed: {error}")


def _decide(
    values: NDArray[np.float64], rule: Rule, looks: Sequence[int] | None, blocks: Sequence[int] | None
) -> Decision:
    _require_usable(values, rule)
    try:
        at = _looks(len(values), rule, looks, blocks)
    except ValueError:
        return _before_the_first_look(len(values), rule)
    path = _path(values[None, :], rule, at)
    passed, failed = (flags[0] for flags in _verdicts(path, rule))
    ended = passed | failed
    i = int(ended.argmax()) if ended.any() else len(at.n) - 1
    n, worth = int(at.n[i]), float(at.worth[i])
    outcome = _outcome(bool(passed[i]), bool(failed[i]), n >= rule.cap)
    mean, pass_width, fail_width = float(path.mean[0, i]), float(path.pass_width[0, i]), float(path.fail_width[0, i])
    if not math.isfinite(mean):
        raise ValueError("the mean is not finite")
    estimate = ratio_of(hodges_lehmann(values[:n]))
    found = Decision(outcome, n, worth, mean, pass_width, fail_width, estimate, rule.cap, "")
    return replace(found, why=_why(found, rule))


def _outcome(passed: bool, failed: bool, at_cap: bool) -> Outcome:
    if passed:
        return Outcome.PASS
    if failed:
        return Outcome.FAIL
    return Outcome.INCONCLUSIVE if at_cap else Outcome.OPEN


def _require_usable(values: NDArray[np.float64], rule: Rule) -> None:
    """Raise ValueError for figures on which the rule is not defined."""
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("a pair is not a finite number")
    if not (math.isfinite(rule.sigma) and rule.sigma > 0):
        raise ValueError(f"sigma is {rule.sigma}")
    if not (0 < rule.margin < 1 and 0 < rule.alpha < 0.5 and 0 < rule.beta < 0.5 and rule.claims >= 1):
        raise ValueError(f"margin {rule.margin}, alpha {rule.alpha}, beta {rule.beta}, claims {rule.claims}")
    if not (0 <= rule.intraclass <= 1 and rule.block_pairs >= 1):
        raise ValueError(f"a correlation of {rule.intraclass} in blocks of {rule.block_pairs}")
    if not rule.room > 0:
        raise ValueError(f"the stored value's own error leaves no room within a margin of {rule.margin:.1%}")
    if not 0 < rule.c2 < math.inf:
        raise ValueError(f"sigma {rule.sigma} against a margin of {rule.margin:.1%}")


def _before_the_first_look(pairs: int, rule: Rule) -> Decision:
    """No look yet: open, unless the pairs end before there can be one."""
    ended = pairs >= rule.cap or rule.cap < LEAST_PAIRS
    outcome = Outcome.INCONCLUSIVE if ended else Outcome.OPEN
    why = f"{pairs} pairs of at most {rule.cap} and no look yet: the first is when they are worth {LEAST_PAIRS} or more"
    return _without_figures(outcome, pairs, rule.cap, why)


def _without_figures(outcome: Outcome, n: int, cap: int, why: str) -> Decision:
    nan = math.nan
    return Decision(outcome, n, nan, nan, math.inf, math.inf, Estimate(nan, nan, nan), cap, why)


def _why(found: Decision, rule: Rule) -> str:
    """One sentence with the figures that decided."""
    low, high = math.expm1(found.mean - found.pass_width), math.expm1(found.mean + found.fail_width)
    worth = "" if found.worth > found.n - 1 else f", worth {found.worth:.0f} on servers of their own,"
    figures = f"after {found.n} pairs{worth} the mean change is {math.expm1(found.mean):+.1%}"
    match found.outcome:
        case Outcome.PASS:
            return f"{figures}, at worst {low:+.1%}, within the margin of {-rule.margin:+.1%}"
        case Outcome.FAIL:
            return f"{figures}, at best {high:+.1%}"
        case _:
            return f"{figures}, between {low:+.1%} and {high:+.1%}: neither above {-rule.margin:+.1%} nor below 0"
