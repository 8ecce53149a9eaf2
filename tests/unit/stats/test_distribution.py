"""Both tests are quiet on the same distribution and loud on another."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_specdec.stats.distribution import EValue, permutation_p

TRUE = {1: 0.6, 2: 0.3, 3: 0.1}
BENT = {1: 0.3, 2: 0.3, 3: 0.4}


def drawn(distribution: dict[int, float], samples: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    tokens = rng.choice(list(distribution), size=(samples, 3), p=list(distribution.values()))
    return [[int(token) for token in row] for row in tokens]


def test_p_values_of_equal_distributions_are_uniform() -> None:
    values = [
        permutation_p({"p": (drawn(TRUE, 60, 2 * n), drawn(TRUE, 60, 2 * n + 1))}, (1, 2), permutations=99, seed=n)
        for n in range(100)
    ]
    assert 0.35 < np.mean(values) < 0.65
    assert np.mean(np.array(values) <= 0.05) <= 0.12


def test_another_distribution_is_seen_in_any_stratum() -> None:
    same = (drawn(TRUE, 60, 1), drawn(TRUE, 60, 2))
    bent = (drawn(TRUE, 60, 3), drawn(BENT, 60, 4))
    assert permutation_p({"a": same, "b": bent}, (1, 2), permutations=999, seed=1) <= 0.002


def test_sequences_that_end_early_are_counted_as_an_end() -> None:
    ended = [[1] for _ in range(40)]
    assert permutation_p({"p": (drawn(TRUE, 40, 1), ended)}, (1,), permutations=999, seed=1) <= 0.002


def test_rare_tokens_are_pooled() -> None:
    all_different = ([[0, n] for n in range(40)], [[0, 100 + n] for n in range(40)])
    assert permutation_p({"p": all_different}, (1,), permutations=199, seed=1) == 1.0


def observed(distribution: dict[int, float], samples: int, seed: int) -> EValue:
    value = EValue({("p", (0,)): TRUE})
    for row in drawn(distribution, samples, seed):
        value.observe(("p", (0,)), row[0])
    return value


def test_the_e_value_is_rarely_large_under_the_truth() -> None:
    assert sum(observed(TRUE, 300, seed).rejects(0.05) for seed in range(200)) <= 200 * 0.05 + 6


def test_the_e_value_grows_under_another_distribution() -> None:
    assert observed(BENT, 300, 1).rejects(0.001)


def test_an_unlisted_token_counts_as_one_of_the_rest() -> None:
    value = EValue({("p", ()): {1: 0.99}})
    for _ in range(20):
        value.observe(("p", ()), 7)
    assert value.rejects(0.001)


def test_unknown_contexts_teach_nothing() -> None:
    value = EValue({("p", ()): TRUE})
    value.observe(("q", ()), 3)
    assert value.observations == 0
    assert value.log == pytest.approx(0.0)
