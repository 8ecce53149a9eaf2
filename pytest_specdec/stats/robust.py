"""The Hodges-Lehmann estimate: what is reported of paired log ratios, little moved by a hiccup."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.records import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["hodges_lehmann", "ratio_of"]

EXACT_UP_TO = 40  # pairs: beyond it the normal approximation of the signed-rank statistic is good to 0.1 % of coverage


def hodges_lehmann(values: Sequence[float] | NDArray[np.float64], level: float = 0.95) -> Estimate:
    """Median of the Walsh averages ``(x_i + x_j)/2, i <= j``, with the signed-rank interval of coverage ``level``.

    J. L. Hodges and E. L. Lehmann, *Estimates of location based on rank tests* (1963); interval by inversion of
    Wilcoxon's signed-rank test. The interval is for one look at a number of pairs fixed beforehand, in the units of
    ``values``. With too few values for ``level`` (fewer than 6 for 0.95) it is their range; of none, or of one that is
    not finite, all three figures are NaN.
    """
    x = np.asarray(values, dtype=np.float64)
    if not len(x) or not np.isfinite(x).all():
        return Estimate(math.nan, math.nan, math.nan)
    i, j = np.triu_indices(len(x))
    # Half of a subnormal number loses its last bit, and an average is never outside of what it averages.
    walsh = np.clip(np.sort(x[i] / 2 + x[j] / 2), x.min(), x.max())
    order = _order(len(x), level)
    return Estimate(float(np.median(walsh)), float(walsh[order - 1]), float(walsh[len(walsh) - order]))


def ratio_of(log_estimate: Estimate) -> Estimate:
    """The same estimate as a ratio; raises OverflowError for one that has no finite ratio."""
    return Estimate(math.exp(log_estimate.value), math.exp(log_estimate.low), math.exp(log_estimate.high))


@lru_cache(maxsize=256)
def _order(n: int, level: float) -> int:
    """Which smallest and largest Walsh average bound the interval: the largest ``c`` with 2 P(T < c) <= 1 - level."""
    tail = (1 - level) / 2
    if n <= EXACT_UP_TO:
        return max(1, int(np.searchsorted(np.cumsum(_signed_rank(n)), tail, side="right")))
    centre, spread = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    return max(1, math.floor(centre - 0.5 - NormalDist().inv_cdf(1 - tail) * spread) + 1)


def _signed_rank(n: int) -> NDArray[np.float64]:
    """P(T = t) for t = 0 .. n(n+1)/2 under symmetry: each rank is in the sum or not, with probability one half."""
    p = np.zeros(n * (n + 1) // 2 + 1)
    p[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(p)
        shifted[rank:] = p[:-rank]
        p = (p + shifted) / 2
    return p
