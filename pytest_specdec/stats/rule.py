"""The knobs of a decision, the anytime-valid interval that it uses, and what a budget of pairs can show.

The interval is the Gaussian-mixture t confidence sequence of H. Wang and A. Ramdas, *Anytime-valid t-tests and
confidence sequences for Gaussian means with unknown variance* (arXiv:2310.03722, Theorem 4.9). With ``S = sum x`` and
``V = sum x^2`` about the mean that is tested,

    G_n = sqrt(c^2 / (n + c^2)) * ((n + c^2) V / ((n + c^2) V - S^2)) ** (n / 2)

mixes the scale-invariant likelihood ratios of Gaussian data over an effect size N(0, 1/c^2) and is a nonnegative
martingale that starts at one, so by Ville's inequality it reaches ``1/a`` with probability at most ``a``, however often
one looks. Solving ``G_n < 1/a`` for the mean gives ``mean +- width`` (see :func:`half_widths`). The radius of M. Lindon
et al., *Anytime-valid linear models* (arXiv:2210.08589), is the same for a single mean with ``g = c^2``. T. L. Lai's
interval of 1976 is its ancestor with a flat prior on the mean: it is no e-process and is not used here.

What no theorem covers is checked by simulation (``tests/gate/test_decision_simulated.py``): the one-sided use of ``2a``
(for symmetric noise the two crossings are equally likely, so each has ``a`` plus half the chance that both happen),
pairs that are clipped, the floor under the spread, the error of a stored value, and pairs that share their servers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LEAST_PAIRS", "Rule", "StoredError", "detectable_slowdown", "half_widths", "pairs_to_pass"]

LEAST_PAIRS = 6  # or pairs worth as many: below it their spread says too little about their noise
CAP_SLOPE, CAP_OFFSET = 40.0, 10.0  # where a slowdown of the whole margin has failed in 96 or 97 of 100 simulated runs
LEAST_ROOM = 0.5  # share of the margin that the error of a stored value must leave; less costs over 4 times the pairs


@dataclass(frozen=True, slots=True)
class StoredError:
    """How far a stored value may be from the truth of this session; natural-log units.

    ``se``: standard error of the stored mean. ``tau``: spread between sessions of one machine. ``dof``: degrees of
    freedom behind them, sessions less one; infinite when they are known and not estimated.
    """

    se: float
    tau: float
    dof: float = math.inf

    @property
    def total(self) -> float:
        """Standard deviation of the stored mean about what this session would measure: ``sqrt(se^2 + tau^2)``."""
        return math.hypot(self.se, self.tau)

    def reach(self, tail: float) -> float:
        """What the error stays within, but for a share ``tail`` of stored values on one side.

        The quantile is Student's where the error was estimated: from five sessions the normal one for one claim in
        forty at 1 % (3.5) would be passed fifty times too often.
        """
        return _upper_quantile(tail, self.dof) * self.total


@dataclass(frozen=True, slots=True)
class Rule:
    """The knobs of one decision.

    ``sigma``: standard deviation of this contrast's pairs in A/A, natural-log units. ``margin``: the tolerated
    slowdown, a share. ``alpha``: chance of a false fail per run of ``claims`` claims. ``beta``: chance per claim that a
    slowdown of the whole margin passes. ``budget_pairs``: most pairs that may be spent. ``error``: of the stored value
    that the pairs are anchored at, or None when both sides are measured. ``intraclass``: correlation of the pairs of
    one block, which share their servers. ``block_pairs``: how many a block has, for planning and the cap.
    """

    sigma: float
    margin: float = 0.05
    alpha: float = 0.01
    beta: float = 0.05
    claims: int = 1
    budget_pairs: int | None = None
    error: StoredError | None = None
    intraclass: float = 0.0
    block_pairs: int = 1

    @property
    def design_effect(self) -> float:
        """How many pairs of such blocks are worth one on servers of its own: ``1 + (block_pairs - 1) intraclass``."""
        return 1 + (self.block_pairs - 1) * self.intraclass

    @property
    def delta(self) -> float:
        """The mean log ratio of a slowdown of exactly the margin: ``log(1 - margin)``, negative."""
        return math.log1p(-self.margin)

    @property
    def fail_tail(self) -> float:
        """Chance of a false fail that one claim may use."""
        return self.alpha / self.claims

    @property
    def pass_reach(self) -> float:
        """What the error of the stored value adds to the width of the pass."""
        return self.error.reach(self.beta) if self.error else 0.0

    @property
    def fail_reach(self) -> float:
        """What the error of the stored value adds to the width of the fail."""
        return self.error.reach(self.fail_tail) if self.error else 0.0

    @property
    def room(self) -> float:
        """What is left of the margin for the noise of the pairs, natural-log units; may be negative.

        With endlessly many pairs a slowdown of the margin is failed with probability ``1 - beta`` when ``|delta|``
        exceeds the reach of the stored error at both levels, so these two are what it costs.
        """
        return -self.delta - self.pass_reach - self.fail_reach

    @property
    def margin_too_small(self) -> bool:
        """Whether the stored value is too uncertain for this margin: such an entry is refused when recording."""
        return not self.room >= LEAST_ROOM * -self.delta

    @property
    def c2(self) -> float:
        """``c^2 = (sigma / room)^2``: the mixture expects effects of about the room that the margin leaves."""
        return (self.sigma / self.room) ** 2

    @property
    def cap(self) -> int:
        """Pairs after which an open claim is inconclusive: worth ``40 (sigma / room)^2 + 10``; at most the budget."""
        wanted = math.ceil(self.design_effect * (CAP_SLOPE * self.c2 + CAP_OFFSET))
        return wanted if self.budget_pairs is None else min(wanted, self.budget_pairs)


def half_widths(n: NDArray[np.float64], spread: NDArray[np.float64], a: float, c2: float) -> NDArray[np.float64]:
    """Half-width of the two-sided anytime-valid interval of level ``1 - a``, elementwise (formula of the module).

    ``k = c^2/(n + c^2)``, ``r = (a^2 k)^(1/n)``, ``width = spread sqrt((n-1)(1-r) / (n (r-k)))``, infinite when
    ``r <= k``: the data then rule out no mean. ``spread`` is the standard deviation with divisor ``n - 1``; any shape
    that broadcasts with ``n``. Pairs that go together count as the fewer independent ones that they are worth, so ``n``
    need not be whole; that the spread is then known better than from ``n`` makes the interval too wide, never too
    narrow.
    """
    k = c2 / (n + c2)
    log_r = (2 * math.log(a) + np.log(k)) / n
    gap = np.exp(log_r) - k
    bounded = gap > 0
    square = (n - 1) * -np.expm1(log_r) / (n * np.where(bounded, gap, 1.0))
    return np.where(bounded, spread * np.sqrt(square), np.inf)


def detectable_slowdown(rule: Rule, pairs: int | None = None) -> float:
    """The smallest true slowdown, a share, that ``pairs`` (default: the cap) fail with a probability of ``1 - beta``.

    ``1 - exp(-d)`` with ``d = width + z_beta sqrt(sigma^2/n + width^2/(2(n-1)) + error^2)``: the width of the fail at
    the last pair, plus what the noise of the mean, that of the spread in the width, and the stored error may hide. It
    leaves out what earlier looks find and what they let pass, both a few percent. Never below the margin, since less
    is meant to pass; 1.0 where nothing can fail.
    """
    if not rule.room > 0:
        return 1.0
    n = max(1, rule.cap if pairs is None else min(pairs, rule.cap)) / rule.design_effect
    if n < LEAST_PAIRS:
        return 1.0
    width = float(_widths(rule, np.array([n]), rule.fail_tail)[0])
    error = rule.error.total if rule.error else 0.0
    hidden = math.hypot(rule.sigma / math.sqrt(n), width / math.sqrt(2 * (n - 1)), error)
    found = -math.expm1(-(width + rule.fail_reach + NormalDist().inv_cdf(1 - rule.beta) * hidden))
    return max(rule.margin, found)


def pairs_to_pass(rule: Rule) -> int:
    """Pairs after which a contrast without any change has passed in about half of the runs; the cap if none do.

    The first number whose pass width at a spread of ``sigma`` is within the margin. For planning, not for deciding.
    """
    n = np.arange(math.ceil(LEAST_PAIRS * rule.design_effect), rule.cap)
    within = _widths(rule, n / rule.design_effect, rule.beta) + rule.pass_reach < -rule.delta
    return int(n[within.argmax()]) if within.any() else rule.cap


def _widths(rule: Rule, n: NDArray[np.float64], tail: float) -> NDArray[np.float64]:
    return half_widths(n, np.full(n.shape, rule.sigma), 2 * tail, rule.c2)


def _upper_quantile(tail: float, dof: float) -> float:
    """The value that a standard normal, or Student's t for finite ``dof``, exceeds with probability ``tail``."""
    if math.isinf(dof):
        return NormalDist().inv_cdf(1 - tail)
    from scipy.special import stdtrit  # here: only stored values need it, and it takes a tenth of a second

    return float(stdtrit(dof, 1 - tail))
