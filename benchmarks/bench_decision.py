"""What a decision costs: asked after every round of every open claim, so it must be small beside one generation.

pytest benchmarks/bench_decision.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_specdec.stats.decision import Outcome, decide, first_terminal
from pytest_specdec.stats.robust import hodges_lehmann
from pytest_specdec.stats.rule import Rule, StoredError

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

UNDECIDED = -0.032  # between no change and the margin: no look ends it early


def pairs(sigma: float, count: int) -> list[float]:
    return [UNDECIDED + sigma, UNDECIDED - sigma] * (count // 2)


@pytest.mark.parametrize("sigma", [0.04, 0.15])
def test_a_decision_up_to_the_cap(benchmark: BenchmarkFixture, sigma: float) -> None:
    rule = Rule(sigma, claims=40)
    values = pairs(sigma, rule.cap)
    decision = benchmark(decide, values, rule)
    assert decision.outcome is Outcome.INCONCLUSIVE


def test_a_decision_against_a_stored_value(benchmark: BenchmarkFixture) -> None:
    rule = Rule(0.04, claims=40, error=StoredError(0.001, 0.001, dof=9))
    decision = benchmark(decide, pairs(0.04, 30), rule)
    assert decision.outcome is Outcome.OPEN


def test_the_estimate_of_three_hundred_pairs(benchmark: BenchmarkFixture) -> None:
    estimate = benchmark(hodges_lehmann, np.random.default_rng(1).normal(0, 0.15, 300))
    assert estimate.low < estimate.value < estimate.high


def test_a_thousand_simulated_claims(benchmark: BenchmarkFixture) -> None:
    rule = Rule(0.15, claims=40)
    rows = np.random.default_rng(1).normal(0, 0.15, (1000, rule.cap))
    sign, _ = benchmark(first_terminal, rows, rule)
    assert np.mean(sign == 1) > 0.99
