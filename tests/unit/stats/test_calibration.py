"""What A/A tells of the noise, and what a stored value inherits of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.errors import BaselineError
from pytest_specdec.stats.calibration import calibrate, clipped_sigma, lag1, pool, require_resolvable
from pytest_specdec.stats.rule import Rule, StoredError


def sessions(count: int, pairs: int, *, sigma: float, tau: float, seed: int, mean: float = 0.0) -> list[list[float]]:
    rng = np.random.default_rng(seed)
    starts = mean + rng.normal(0, tau, count) if tau else np.full(count, mean)
    return [list(start + rng.normal(0, sigma, pairs)) for start in starts]


def test_sigma_mean_and_tau_are_found_again() -> None:
    found = calibrate(sessions(200, 100, sigma=0.04, tau=0.01, seed=1, mean=0.02))
    assert found.sigma == pytest.approx(0.04, rel=0.03)
    assert found.tau == pytest.approx(0.01, rel=0.15)
    assert abs(found.mean - 0.02) < 3 * found.mean_se
    assert found.mean_se == pytest.approx(0.01 / math.sqrt(200), rel=0.2)
    assert abs(found.lag1) < 0.05
    assert (found.pairs, found.sessions, found.tau_dof) == (20_000, 200, 199)


def test_what_sessions_share_is_not_taken_for_noise_of_pairs() -> None:
    apart = calibrate([[0.5 + x, 0.5 - x] * 10 for x in (0.04,)] + [[-0.5 + x, -0.5 - x] * 10 for x in (0.04,)])
    assert apart.sigma == pytest.approx(0.04, rel=0.05)


def test_hiccups_do_not_make_sigma() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(0, 0.04, 400)
    values[::40] += 2.0
    assert calibrate([list(values)]).sigma < 0.05
    assert float(np.std(values)) > 0.3


@given(st.lists(st.floats(-1, 1), min_size=20, max_size=40), st.floats(0.1, 10))
def test_sigma_scales_with_the_data_and_is_never_more_than_their_spread(values: list[float], factor: float) -> None:
    x = np.array(values) - np.mean(values)
    sigma = clipped_sigma(x)
    assert 0 <= sigma <= float(np.std(x, ddof=1)) * (1 + 1e-6) + 1e-12
    assert clipped_sigma(x * factor) == pytest.approx(sigma * factor, rel=1e-3, abs=1e-12)


def test_mostly_equal_pairs_still_have_a_spread() -> None:
    assert clipped_sigma(np.array([0.0] * 30 + [0.1, -0.1])) > 0


def test_fewer_than_five_sessions_say_nothing_of_tau() -> None:
    found = calibrate(sessions(4, 20, sigma=0.04, tau=0.01, seed=3))
    assert math.isnan(found.tau)
    assert found.tau_dof == 0
    assert math.isnan(found.stored_error(80).total)


def test_sessions_that_agree_have_no_tau() -> None:
    alternating = [[0.04, -0.04] * 20 for _ in range(6)]
    assert calibrate(alternating).tau == 0.0


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_lag1_is_the_correlation_of_neighbours(rho: float) -> None:
    rng = np.random.default_rng(4)
    x = [0.0]
    for shock in rng.normal(0, 1, 5000):
        x.append(rho * x[-1] + shock)
    assert lag1([np.array(x)]) == pytest.approx(rho, abs=0.05)


def test_lag1_does_not_join_the_end_of_a_session_to_the_next() -> None:
    assert lag1([np.array([1.0, 0.0]), np.array([1.0, 0.0])]) == 0.0
    assert lag1([np.zeros(5)]) == 0.0


@pytest.mark.parametrize("rows", [[], [[0.0] * 19], [[0.0] * 19 + [math.nan]]])
def test_too_little_or_nonsense_is_refused_with_a_remedy(rows: list[list[float]]) -> None:
    with pytest.raises(BaselineError) as caught:
        calibrate(rows)
    assert caught.value.remedy


def test_the_error_of_a_stored_mean_has_its_own_sessions_in_it() -> None:
    found = calibrate(sessions(10, 40, sigma=0.04, tau=0.01, seed=5))
    error = found.stored_error(100, sessions=4)
    assert error.se == pytest.approx(math.sqrt(found.sigma**2 / 100 + found.tau**2 / 4))
    assert error.tau == found.tau
    assert error.dof == 9


def test_pooled_contrasts_know_tau_better() -> None:
    many = [calibrate(sessions(5, 50, sigma=0.02, tau=0.01, seed=seed)) for seed in range(40)]
    tau, dof = pool(many)
    assert dof == 160
    assert tau == pytest.approx(0.01, rel=0.15)
    assert StoredError(0, tau, dof).reach(0.01 / 40) < StoredError(0, tau, 4).reach(0.01 / 40) / 2.5


def test_nothing_to_pool_is_no_tau() -> None:
    tau, dof = pool([calibrate(sessions(1, 40, sigma=0.04, tau=0.0, seed=6))])
    assert math.isnan(tau)
    assert dof == 0


def test_an_entry_that_its_margin_cannot_resolve_is_refused() -> None:
    require_resolvable(Rule(0.04, claims=40, error=StoredError(0.002, 0.002)), "speedup.code")
    with pytest.raises(BaselineError, match=r"speedup\.code") as caught:
        require_resolvable(Rule(0.04, claims=40, error=StoredError(0.01, 0.01)), "speedup.code")
    assert "margin" in caught.value.remedy
