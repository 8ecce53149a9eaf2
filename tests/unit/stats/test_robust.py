"""The Hodges-Lehmann estimate and its interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_specdec.stats.robust import hodges_lehmann, ratio_of

VALUES = st.lists(st.floats(-10, 10), min_size=1, max_size=30)


def test_a_textbook_example() -> None:
    # Depression scores before and after, Hollander and Wolfe, Nonparametric Statistical Methods, 1973, example 3.1.
    first = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    second = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    estimate = hodges_lehmann([a - b for a, b in zip(first, second, strict=True)])
    assert estimate.value == pytest.approx(0.46, abs=5e-4)
    assert estimate.low == pytest.approx(0.010, abs=5e-4)
    assert estimate.high == pytest.approx(0.786, abs=5e-4)


@given(VALUES, st.floats(-5, 5))
def test_it_moves_with_the_data(values: list[float], shift: float) -> None:
    before, after = hodges_lehmann(values), hodges_lehmann([v + shift for v in values])
    assert after.value == pytest.approx(before.value + shift, abs=1e-9)
    assert after.low == pytest.approx(before.low + shift, abs=1e-9)
    assert after.high == pytest.approx(before.high + shift, abs=1e-9)


@example([5e-324])
@given(VALUES)
def test_it_does_not_depend_on_order_and_stays_within_the_data(values: list[float]) -> None:
    estimate = hodges_lehmann(values)
    assert estimate == hodges_lehmann(sorted(values))
    assert min(values) <= estimate.low <= estimate.value <= estimate.high <= max(values)


def test_one_hiccup_in_ten_moves_it_little_where_it_moves_the_mean_much() -> None:
    values = [*np.linspace(-0.01, 0.01, 9), 3.0]
    assert abs(hodges_lehmann(values).value) < 0.005
    assert abs(float(np.mean(values))) > 0.25


def test_too_few_values_for_the_level_give_their_range() -> None:
    estimate = hodges_lehmann([1.0, 2.0, 4.0])
    assert (estimate.low, estimate.high) == (1.0, 4.0)


@pytest.mark.parametrize("values", [[], [math.nan, 1.0], [math.inf]])
def test_nothing_or_nonsense_gives_nan(values: list[float]) -> None:
    estimate = hodges_lehmann(values)
    assert all(math.isnan(figure) for figure in (estimate.value, estimate.low, estimate.high))


@pytest.mark.parametrize("n", [8, 40, 41, 120])
def test_the_interval_covers_the_truth_as_often_as_it_says(n: int) -> None:
    rng = np.random.default_rng(n)
    runs = 600
    hits = sum(e.low <= 0 <= e.high for e in (hodges_lehmann(rng.standard_t(3, n)) for _ in range(runs)))
    # 0.95 or, for few values, somewhat more; 0.92 is 3.4 standard errors of 600 runs below.
    assert 0.92 <= hits / runs <= 0.985


def test_a_ratio_is_the_exponential() -> None:
    assert ratio_of(hodges_lehmann([math.log(2)] * 8)).value == pytest.approx(2.0)
    with pytest.raises(OverflowError):
        ratio_of(hodges_lehmann([1e4] * 8))
