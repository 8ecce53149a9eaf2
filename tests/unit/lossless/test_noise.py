"""Noise from rescored positions."""

from __future__ import annotations

import pytest

from pytest_specdec.lossless import Rescored, noise_from
from pytest_specdec.lossless.noise import blind_share
from tests.unit.lossless.replies import NOISE, reply


def test_the_bound_is_twice_the_largest_change() -> None:
    rows = [
        Rescored("p", 0, 1.0, 1.002, flipped=False),
        Rescored("p", 1, 0.5, 0.497, flipped=False),
        Rescored("p", 2, 0.001, -0.001, flipped=True),
    ]
    noise = noise_from(rows, unscored=4, widths=(8, 9))
    assert noise.bound_nats == pytest.approx(0.006)
    assert noise.mean_nats == pytest.approx(0.007 / 3)
    assert (noise.positions, noise.flips, noise.unscored) == (3, 1, 4)
    assert "3 positions scored again in chunks of 8, 9" in noise.words
    assert "in one batch with their context" in noise_from(rows, unscored=0, widths=()).words


def test_nothing_rescored_is_no_noise_over_no_positions() -> None:
    assert noise_from([], unscored=0, widths=(8,)).positions == 0


def test_a_constraint_makes_gaps_negative_and_not_small() -> None:
    assert blind_share([reply(1, 2, 3, 4, gaps=[0.001, -0.001, -5.0, 5.0])], NOISE) == 0.5
    assert blind_share([], NOISE) == 0.0
