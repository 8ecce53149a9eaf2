"""Where two replies part, and when that is a tie."""

from __future__ import annotations

import pytest

from pytest_specdec.lossless import first_fork
from pytest_specdec.records import Alternative, Generation
from tests.support import generation

BASE = generation(
    (1, 2, 3, 4),
    alternatives=(Alternative(9, 5.0), Alternative(8, 0.002), Alternative(7, 0.5), Alternative(6, float("inf"))),
)


def other(*tokens: int) -> Generation:
    return generation(tokens)


def test_identical_replies_do_not_part() -> None:
    assert first_fork(BASE, other(1, 2, 3, 4)) is None
    assert first_fork(generation(()), generation(())) is None


def test_the_first_difference_with_its_context() -> None:
    fork = first_fork(BASE, other(1, 8, 3, 9))
    assert fork is not None
    assert (fork.prompt_id, fork.position, fork.base_token, fork.other_token) == ("p1", 1, 2, 8)
    assert (fork.second_token, fork.gap_nats, fork.context) == (8, 0.002, "<1>")


@pytest.mark.parametrize(("tokens", "mine", "theirs"), [((1, 2), 3, None), ((1, 2, 3, 4, 5), None, 5), ((), 1, None)])
def test_an_early_or_a_late_end_is_a_fork(tokens: tuple[int, ...], mine: int | None, theirs: int | None) -> None:
    fork = first_fork(BASE, other(*tokens))
    assert fork is not None
    assert (fork.position, fork.base_token, fork.other_token) == (min(len(tokens), 4), mine, theirs)
    assert not fork.is_tie(100.0)


@pytest.mark.parametrize(
    ("tokens", "bound", "tie"),
    [
        ((1, 8, 3), 0.01, True),  # the second choice, within the noise
        ((1, 8, 3), 0.001, False),  # the second choice, further away than the noise
        ((1, 5, 3), 0.01, False),  # any other token, however small the gap
        ((9, 2, 3), 0.01, False),
        ((1, 2, 7), 0.5, True),  # the bound itself still counts
        ((1, 2, 3, 6), 100.0, False),  # no second choice was listed
    ],
)
def test_a_tie_is_the_second_choice_no_further_than_the_noise(tokens: tuple[int, ...], bound: float, tie: bool) -> None:
    fork = first_fork(BASE, other(*tokens))
    assert fork is not None
    assert fork.is_tie(bound) is tie


def test_without_alternatives_nothing_is_a_tie() -> None:
    fork = first_fork(generation((1, 2)), generation((1, 3)))
    assert fork is not None
    assert (fork.second_token, fork.gap_nats) == (None, None)
    assert not fork.is_tie(100.0)
