"""Ties at the edges of the rule: just inside and outside the noise, under a bias, in a row, and at a temperature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from pytest_specdec.lossless import judge, judge_sampled
from pytest_specdec.records import Generation, Reason, Status
from tests.unit.lossless.replies import NOISE, SECOND, reply


@dataclass
class Recorded:
    """Answers from the test instead of from a server, and remembers what it was asked."""

    after: Callable[[int], Generation] = lambda _start: reply()
    gap: float | None = None
    asked: list[int] = field(default_factory=list)

    def go_on(self, base: Generation, start: int) -> Generation:
        self.asked.append(start)
        return self.after(start)

    def gap_nats(self, base: Generation, position: int, first: int, second: int) -> float | None:
        return self.gap


@pytest.mark.parametrize(
    ("other", "what"),
    [
        pytest.param(reply(1, 2 + SECOND, 3), "token 102 for token 2", id="a clear second choice"),
        pytest.param(reply(1, 7, 3), "token 7 for token 2", id="not the second choice"),
        pytest.param(reply(1), "the end for token 2", id="too short"),
        pytest.param(reply(1, 2, 3, 4), "token 4 for the end", id="too long"),
    ],
)
def test_a_loss_is_told_with_its_place(other: Generation, what: str) -> None:
    finding = judge([reply(1, 2, 3)], [other], NOISE, Recorded())
    assert (finding.status, finding.reason) == (Status.FAIL, Reason.TOKENS_DIFFER)
    assert what in finding.measured
    (loss,) = finding.evidence["losses"]
    assert loss["position"] == (3 if len(other.tokens) == 4 else 1)
    for word in ("p at token", "gap is", "noise", "after 'b"):
        assert word in finding.detail


def test_a_tie_is_no_loss_and_the_rest_is_judged_behind_it() -> None:
    base = reply(*range(1, 31), gaps=[1, 0.009])
    replay = Recorded(lambda start: reply(*base.tokens[start:]))
    finding = judge([base], [reply(1, 2 + SECOND, 8, 9)], NOISE, replay)
    assert finding.status is Status.PASS
    assert replay.asked == [2]
    assert finding.measured.endswith("1 ties")
    assert finding.evidence["ties_beyond_the_largest_change"] == 1


def test_ties_in_a_row_are_each_stepped_over() -> None:
    base = reply(1, 2, 3, gaps=[0.0, 0.0, 0.0])
    replay = Recorded(lambda start: reply(*(token + SECOND for token in base.tokens[start:])))
    finding = judge([base], [reply(1 + SECOND)], replace(NOISE, largest_nats=1e-9), replay)
    assert replay.asked == [1, 2]
    # All three positions are ties, so that nothing was compared: no power.
    assert (finding.status, finding.reason) == (Status.INCONCLUSIVE, Reason.NO_POWER)


def test_the_second_choice_just_outside_the_noise_is_a_loss() -> None:
    base = reply(1, 2, gaps=[1, 0.0101])
    assert judge([base], [reply(1, 2 + SECOND)], NOISE, Recorded()).status is Status.FAIL


def test_a_gap_under_a_bias_is_asked_for() -> None:
    base = reply(1, 2, 3, gaps=[1, -4.0])
    replay = Recorded(lambda _start: reply(3), gap=-0.004)
    assert judge([base], [reply(1, 55, 3)], NOISE, replay).status is Status.PASS
    assert judge([base], [reply(1, 55, 3)], NOISE, Recorded(gap=-4.0)).status is Status.FAIL


def test_the_best_token_is_no_tie_where_a_constraint_forbids_it() -> None:
    base = reply(1, 2, 3, gaps=[1, -4.0])
    assert judge([base], [reply(1, 2 + SECOND, 3)], NOISE, Recorded()).status is Status.FAIL


def test_noise_over_few_positions_is_none() -> None:
    finding = judge([reply(1)], [reply(1)], replace(NOISE, positions=12), Recorded())
    assert (finding.status, finding.reason) == (Status.INCONCLUSIVE, Reason.NO_POWER)


def test_whether_another_drafter_parts_there_too_is_told() -> None:
    base, other = [reply(1, 2, 3)], [reply(1, 9, 3)]
    alike = judge(base, other, NOISE, Recorded(), {"mtp": [reply(1, 8, 3)], "ngram": base}).detail
    alone = judge(base, other, NOISE, Recorded(), {"mtp": base}).detail
    assert "mtp parts there too, which points at the target side" in alike
    assert "mtp does not part there, which points at the drafter" in alone


def test_as_many_sampled_replies_may_part_as_rounding_explains() -> None:
    base = [reply(*range(100), prompt=f"p{n}") for n in range(3)]
    parted = [reply(*range(50), 9, prompt="p0"), *base[1:]]
    quiet, loud = replace(NOISE, mean_nats=1e-6), replace(NOISE, mean_nats=1e-3)
    assert judge_sampled(base, base, quiet).status is Status.PASS
    assert judge_sampled(base, parted, quiet).reason is Reason.TOKENS_DIFFER
    assert judge_sampled(base, parted, loud).status is Status.PASS
