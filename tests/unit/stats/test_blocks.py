"""What pairs that share their servers are worth, and how much they share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.stats.blocks import by_block, design_effects, intraclass_correlation, worth

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def blocks(sizes: list[int]) -> list[int]:
    return [number for number, size in enumerate(sizes) for _ in range(size)]


def drawn(sizes: list[int], intraclass: float, seed: int = 1) -> list[float]:
    """Values of variance 1 that correlate by ``intraclass`` within a block."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, math.sqrt(intraclass), len(sizes))
    return [float(shared[block] + rng.normal(0, math.sqrt(1 - intraclass))) for block in blocks(sizes)]


def test_values_are_grouped_by_their_block_in_the_order_measured() -> None:
    assert [group.tolist() for group in by_block([1.0, 2.0, 3.0], [4, 4, 6])] == [[1.0, 2.0], [3.0]]


@given(SIZES, st.floats(0, 1))
def test_the_worth_is_that_of_the_mean_of_correlated_values(sizes: list[int], intraclass: float) -> None:
    """By the covariance matrix itself: 1 on the diagonal, the correlation within a block, 0 elsewhere."""
    of = np.array(blocks(sizes))
    covariance = np.where(of[:, None] == of[None, :], intraclass, 0.0)
    np.fill_diagonal(covariance, 1.0)
    variance_of_the_mean = covariance.mean()
    assert worth(list(of), intraclass) == pytest.approx(1 / variance_of_the_mean)


@given(SIZES, st.floats(0, 1))
def test_more_pairs_are_worth_as_much_as_they_are_alone(sizes: list[int], intraclass: float) -> None:
    """Each look sees what came before it, and nothing of what comes later."""
    of = blocks(sizes)
    looks = np.arange(1, len(of) + 1)
    alone = [n / worth(of[:n], intraclass) for n in looks]
    assert design_effects(of, looks, intraclass).tolist() == pytest.approx(alone)


def test_pairs_on_servers_of_their_own_are_worth_their_number() -> None:
    assert worth(list(range(20)), 0.9) == 20
    assert worth(blocks([9, 9]), 0.0) == 18
    assert worth(blocks([9, 9]), 1.0) == pytest.approx(2)
    assert worth([], 0.5) == 0.0


@pytest.mark.parametrize("intraclass", [0.0, 0.2, 0.5, 0.9])
def test_what_blocks_share_is_found_again(intraclass: float) -> None:
    sizes = [2, 3, 4] * 700
    found = intraclass_correlation(by_block(drawn(sizes, intraclass), blocks(sizes)))
    assert found == pytest.approx(intraclass, abs=0.03)


def test_means_that_were_taken_out_are_counted() -> None:
    """Of sessions of two blocks each the means hide half of what blocks differ by."""
    sizes, intraclass = [3] * 2000, 0.5
    values = np.array(drawn(sizes, intraclass)).reshape(-1, 6)
    values -= values.mean(axis=1, keepdims=True)
    groups = by_block(values.ravel().tolist(), blocks(sizes))
    assert intraclass_correlation(groups, lost=1000) == pytest.approx(intraclass, abs=0.03)
    assert (intraclass_correlation(groups) or 0) < 0.35


def test_nobody_knows_what_single_pairs_or_a_single_block_share() -> None:
    assert intraclass_correlation(by_block([1.0, 2.0, 3.0], [0, 1, 2])) is None
    assert intraclass_correlation(by_block([1.0, 2.0, 3.0], [0, 0, 0])) is None
    assert intraclass_correlation(by_block([1.0] * 4, [0, 0, 1, 1])) == 0.0, "nothing varies"
