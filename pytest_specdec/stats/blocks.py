"""Pairs of one block share their servers and a few seconds, so they go together: what they are worth."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["by_block", "design_effects", "intraclass_correlation", "worth"]


def by_block(values: Sequence[float], blocks: Sequence[int]) -> list[NDArray[np.float64]]:
    """The values of each block, in the order measured; ``blocks`` says of each value which one it belongs to."""
    together = groupby(zip(blocks, values, strict=True), key=itemgetter(0))
    return [np.array([value for _, value in rows], dtype=np.float64) for _, rows in together]


def design_effects(blocks: Sequence[int], looks: NDArray[np.int64], intraclass: float) -> NDArray[np.float64]:
    """How many times more pairs are needed than if each had servers of its own, after each look; shape (looks,).

    ``1 + (m - 1) rho`` with ``m = sum k^2 / sum k`` over the sizes ``k`` of the blocks so far: the variance of the mean
    of values that correlate by ``rho`` within a block, over that of as many independent ones (L. Kish, *Survey
    Sampling*, 1965, section 5.4, for blocks of several sizes).
    """
    sizes = _sizes_of_own_block(blocks)
    # Every pair adds (k + 1)^2 - k^2 to the sum of squares, where k pairs of its block came before.
    squares = np.cumsum(2 * sizes + 1)
    return np.asarray(1 + (squares[looks - 1] / looks - 1) * intraclass, dtype=np.float64)


def worth(blocks: Sequence[int], intraclass: float) -> float:
    """How many independent pairs all of these are worth; 0 without any."""
    if not blocks:
        return 0.0
    everything = np.array([len(blocks)], dtype=np.int64)
    return float(len(blocks) / design_effects(blocks, everything, intraclass)[0])


def _sizes_of_own_block(blocks: Sequence[int]) -> NDArray[np.int64]:
    """Of each pair, how many of its block came before it."""
    seen: dict[int, int] = {}
    before = np.empty(len(blocks), dtype=np.int64)
    for i, block in enumerate(blocks):
        before[i] = seen[block] = seen.get(block, -1) + 1
    return before


def intraclass_correlation(groups: Sequence[NDArray[np.float64]], lost: int = 1) -> float | None:
    """Share of a value's variance that its block shares, 0 to 1; None where no block has two values or there is one.

    ``lost`` is the number of means that were taken out of the values of all blocks together.

    ``(B - W) / (B + (k - 1) W)`` with the mean squares between and within blocks and ``k = (n - sum k_i^2 / n) /
    (blocks - 1)``, negative ones taken for 0: the analysis-of-variance estimator of a one-way layout with random
    effects (Searle, Casella and McCulloch, *Variance Components*, 1992, chapter 3).
    """
    n, count = sum(map(len, groups)), len(groups)
    if count <= lost or n == count:
        return None
    centre = float(np.concatenate(groups).mean())
    between = sum(len(group) * (float(group.mean()) - centre) ** 2 for group in groups) / (count - lost)
    within = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups) / (n - count)
    size = (n - sum(len(group) ** 2 for group in groups) / n) / (count - 1)
    spread = between + (size - 1) * within
    return max(0.0, (between - within) / spread) if spread > 0 else 0.0
