"""The verdict on a set of replies: identical, parted at ties, or lossy; or a check without power."""

from __future__ import annotations

import pytest

from pytest_specdec.lossless import Noise, judge, judge_replies
from pytest_specdec.records import Alternative, Generation, Reason, Status
from tests.support import generation

NOISE = Noise(largest_nats=0.005, mean_nats=0.001, positions=2000, flips=0, unscored=0, widths=(8,))
TOKENS = tuple(range(100, 140))


def base(prompt_id: str = "p1", tie_at: int | None = None) -> Generation:
    gaps = [Alternative(7, 0.002 if position == tie_at else 3.0) for position in range(len(TOKENS))]
    return generation(TOKENS, prompt_id=prompt_id, alternatives=tuple(gaps))


def changed(at: int, token: int = 7, prompt_id: str = "p1") -> Generation:
    return generation((*TOKENS[:at], token, *TOKENS[at + 1 :]), prompt_id=prompt_id)


class Replay:
    """Goes on after a tie as it was told to."""

    def __init__(self, *tokens: int) -> None:
        self.tokens = tokens
        self.asked: list[int] = []

    def go_on(self, base: Generation, start: int) -> Generation:
        self.asked.append(start)
        return generation(self.tokens or base.tokens[start:], prompt_id=base.prompt_id)

    def gap_nats(self, base: Generation, position: int, first: int, second: int) -> float | None:
        return None


def test_identical_replies_pass() -> None:
    finding = judge([base("p1"), base("p2")], [base("p1"), base("p2")], NOISE, Replay())
    assert (finding.status, finding.reason) == (Status.PASS, Reason.HELD)
    assert finding.evidence["prompts"] == 2
    assert finding.evidence["tokens"] == 2 * len(TOKENS)


def test_another_token_fails_and_is_named_with_place_and_gap() -> None:
    finding = judge([base("p1"), base("p2")], [base("p1"), changed(20, 9, "p2")], NOISE, Replay())
    assert (finding.status, finding.reason) == (Status.FAIL, Reason.TOKENS_DIFFER)
    assert "1 of 2 prompts differ" in finding.measured
    assert "p2 at token 20: token 9 for token 120" in finding.measured
    assert "it is not the base's second choice" in finding.detail
    assert finding.evidence["losses"][0]["position"] == 20


@pytest.mark.parametrize(
    ("token", "status", "reason"),
    [(7, Status.INCONCLUSIVE, Reason.NO_POWER), (9, Status.FAIL, Reason.TOKENS_DIFFER)],
    ids=["second choice", "any other"],
)
def test_without_noise_a_second_choice_may_be_a_tie_and_no_other_token(
    token: int, status: Status, reason: Reason
) -> None:
    unmeasured = Noise(largest_nats=0.0, mean_nats=0.0, positions=0, flips=0, unscored=0, widths=(8,))
    finding = judge([base(tie_at=10)], [changed(10, token)], unmeasured, Replay())
    assert (finding.status, finding.reason) == (status, reason)


def test_a_second_choice_that_nobody_asked_for_is_not_said_to_be_another() -> None:
    unlisted = generation(TOKENS, prompt_id="p1")
    finding = judge_replies([unlisted], [changed(20)], NOISE)
    assert finding.status is Status.FAIL
    assert "it may be the base's second choice, whose gap is unknown" in finding.detail


def test_after_a_tie_the_check_goes_on_behind_it() -> None:
    replay = Replay()
    finding = judge([base(tie_at=10)], [changed(10)], NOISE, replay)
    assert finding.status is Status.PASS
    assert replay.asked == [11]
    assert len(finding.evidence["ties"]) == 1


def test_a_loss_behind_a_tie_is_found() -> None:
    replay = Replay(*TOKENS[11:30], 9, *TOKENS[31:])
    finding = judge([base(tie_at=10)], [changed(10)], NOISE, replay)
    assert finding.status is Status.FAIL
    assert finding.evidence["losses"][0]["position"] == 30


def test_without_asking_again_a_tie_ends_the_check_of_that_reply() -> None:
    assert judge_replies([base(tie_at=10)], [changed(10)], NOISE).status is Status.PASS
    assert judge_replies([base(tie_at=10)], [changed(11)], NOISE).status is Status.FAIL


def test_too_many_near_ties_leave_no_power() -> None:
    near = generation(TOKENS, alternatives=tuple(Alternative(7, 0.001) for _ in TOKENS))
    finding = judge([near], [near], NOISE, Replay())
    assert (finding.status, finding.reason) == (Status.INCONCLUSIVE, Reason.NO_POWER)


def test_different_prompts_are_never_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        judge([base("p1"), base("p2")], [base("p1")], NOISE, Replay())
