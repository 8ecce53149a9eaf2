"""The anytime-valid width against the martingale that it comes from, and what a rule plans."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.stats.rule import Rule, StoredError, detectable_slowdown, half_widths, pairs_to_pass

LEVELS = st.floats(1e-6, 0.5)
PRECISIONS = st.floats(0.01, 1e4)  # c^2
DATA = st.lists(st.floats(-10, 10, allow_subnormal=False), min_size=6, max_size=60).filter(lambda x: np.std(x) > 1e-3)


def width(n: int, spread: float, a: float, c2: float) -> float:
    return float(half_widths(np.array([n]), np.array([spread]), a, c2)[0])


def log_martingale(x: np.ndarray, mean: float, c2: float) -> float:
    """``log G_n`` as Wang and Ramdas print it, for the hypothesis that the data have this mean."""
    n, s, v = len(x), float(np.sum(x - mean)), float(np.sum((x - mean) ** 2))
    return 0.5 * math.log(c2 / (n + c2)) + n / 2 * math.log((n + c2) * v / ((n + c2) * v - s**2))


@given(DATA, LEVELS, PRECISIONS)
def test_the_interval_ends_where_the_martingale_reaches_its_bound(data: list[float], a: float, c2: float) -> None:
    x = np.array(data)
    w = width(len(x), float(np.std(x, ddof=1)), a, c2)
    if math.isinf(w):
        assert log_martingale(x, float(np.mean(x)) + 1e9, c2) <= math.log(1 / a) + 1e-6  # no mean is ever ruled out
    elif w < 1e4:  # beyond, the martingale is too flat there to be resolved
        assert log_martingale(x, float(np.mean(x)) + w, c2) == pytest.approx(math.log(1 / a), abs=1e-5)
        assert log_martingale(x, float(np.mean(x)) - w, c2) == pytest.approx(math.log(1 / a), abs=1e-5)


@given(st.integers(2, 500), LEVELS, PRECISIONS)
def test_the_width_is_infinite_exactly_when_r_is_at_most_k(n: int, a: float, c2: float) -> None:
    k = c2 / (n + c2)
    r = (a**2 * k) ** (1 / n)
    if not math.isclose(r, k, rel_tol=1e-9):
        assert math.isinf(width(n, 1.0, a, c2)) == (r < k)


def test_few_pairs_at_a_strict_level_rule_nothing_out() -> None:
    assert width(6, 0.04, 2 * 0.01 / 40, (0.15 / 0.05) ** 2) == math.inf


@given(st.integers(6, 500), LEVELS, LEVELS, PRECISIONS)
def test_a_stricter_level_is_never_narrower(n: int, one: float, other: float, c2: float) -> None:
    strict, lax = sorted((one, other))
    assert width(n, 1.0, strict, c2) >= width(n, 1.0, lax, c2)


@given(st.integers(6, 500), LEVELS, PRECISIONS, st.floats(0.01, 100))
def test_the_width_scales_with_the_spread(n: int, a: float, c2: float, factor: float) -> None:
    assert width(n, factor, a, c2) == pytest.approx(factor * width(n, 1.0, a, c2))


@pytest.mark.parametrize(("sigma", "cap"), [(0.04, 35), (0.15, 353)])
def test_the_cap_is_40_times_the_squared_noise_over_the_margin_plus_10(sigma: float, cap: int) -> None:
    assert Rule(sigma).cap == cap == math.ceil(40 * (sigma / math.log(0.95)) ** 2 + 10)


def test_a_budget_lowers_the_cap_and_never_raises_it() -> None:
    assert Rule(0.04, budget_pairs=12).cap == 12
    assert Rule(0.04, budget_pairs=1000).cap == 35


def test_a_stored_error_takes_its_reach_at_both_levels_from_the_margin() -> None:
    rule = Rule(0.04, claims=40, error=StoredError(se=0.003, tau=0.004))
    assert rule.error is not None
    assert rule.error.total == pytest.approx(0.005)
    assert rule.fail_reach == pytest.approx(3.4808 * 0.005, rel=1e-4)  # normal quantile at 0.01/40
    assert rule.pass_reach == pytest.approx(1.6449 * 0.005, rel=1e-4)
    assert rule.room == pytest.approx(-math.log(0.95) - rule.fail_reach - rule.pass_reach)
    assert rule.cap > Rule(0.04, claims=40).cap


def test_an_estimated_error_reaches_further_than_a_known_one() -> None:
    tail = 0.01 / 40
    five, many, known = (StoredError(0.0, 1.0, dof).reach(tail) for dof in (4, 100, math.inf))
    assert five == pytest.approx(10.306, rel=1e-3)  # Student's t with 4 degrees of freedom
    assert known < many < 3.7 < five


@pytest.mark.parametrize(("total", "refused"), [(0.0, False), (0.004, False), (0.006, True), (math.nan, True)])
def test_a_margin_that_its_entry_cannot_resolve_is_too_small(total: float, refused: bool) -> None:
    assert Rule(0.04, claims=40, error=StoredError(total, 0.0)).margin_too_small is refused


def test_a_wider_margin_is_not_too_small_for_the_same_entry() -> None:
    error = StoredError(0.006, 0.0)
    assert not Rule(0.04, margin=0.10, claims=40, error=error).margin_too_small


@given(st.floats(0.005, 0.3), st.integers(6, 400))
def test_more_pairs_never_detect_less(sigma: float, pairs: int) -> None:
    rule = Rule(sigma, claims=40)
    assert detectable_slowdown(rule, pairs + 1) <= detectable_slowdown(rule, pairs)


@pytest.mark.parametrize("sigma", [0.04, 0.08, 0.15])
def test_at_the_cap_about_the_margin_is_detected(sigma: float) -> None:
    assert detectable_slowdown(Rule(sigma, claims=40)) == pytest.approx(0.05, rel=0.05)


def test_a_slowdown_within_the_margin_is_never_promised_to_be_found() -> None:
    assert detectable_slowdown(Rule(0.02, claims=1)) == 0.05


def test_a_small_budget_detects_only_a_large_slowdown_and_none_below_the_first_look() -> None:
    assert detectable_slowdown(Rule(0.15, claims=40, budget_pairs=40)) > 0.15
    assert detectable_slowdown(Rule(0.15, claims=40, budget_pairs=5)) == 1.0
    assert detectable_slowdown(Rule(0.04, claims=40, error=StoredError(0.02, 0.0))) == 1.0


@pytest.mark.parametrize(("sigma", "designed"), [(0.04, 8.7), (0.15, 67)])
def test_the_plan_expects_about_the_pairs_that_the_simulation_needs(sigma: float, designed: float) -> None:
    assert pairs_to_pass(Rule(sigma, claims=40)) == pytest.approx(designed, rel=0.15)


def test_a_plan_never_expects_more_pairs_than_the_cap() -> None:
    assert pairs_to_pass(Rule(0.15, claims=40, budget_pairs=20)) == 20


def test_pairs_that_share_servers_take_as_many_times_more() -> None:
    alone, together = Rule(0.04, claims=40), Rule(0.04, claims=40, intraclass=0.25, block_pairs=5)
    assert together.design_effect == 2.0
    assert together.cap == pytest.approx(2 * alone.cap, abs=1)
    assert pairs_to_pass(together) == pytest.approx(2 * pairs_to_pass(alone), abs=2)
    assert detectable_slowdown(together, 40) == pytest.approx(detectable_slowdown(alone, 20))
    assert detectable_slowdown(together, 11) == 1.0, "worth less than the first look"
