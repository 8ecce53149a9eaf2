"""What the rule decides, and that whatever it cannot compute is void."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.stats.decision import Outcome, decide, first_terminal
from pytest_specdec.stats.rule import Rule, StoredError

RULE = Rule(sigma=0.04, claims=40)
TERMINAL = (Outcome.PASS, Outcome.FAIL)
UNCLIPPED = st.lists(st.floats(-0.08, 0.08), min_size=6, max_size=20)


def noisy(mean: float, pairs: int, sigma: float = 0.04) -> list[float]:
    """Pairs that alternate between one sigma above and below: this mean and spread after every even number."""
    return [mean + sigma, mean - sigma] * (pairs // 2)


def test_no_change_passes() -> None:
    decision = decide(noisy(0.0, 30), RULE)
    assert decision.outcome is Outcome.PASS
    assert decision.n < 30
    assert decision.mean - decision.pass_width > RULE.delta


def test_a_large_slowdown_fails() -> None:
    decision = decide(noisy(-0.12, 30), RULE)
    assert decision.outcome is Outcome.FAIL
    assert decision.mean + decision.fail_width < 0
    assert "at best -" in decision.why


def test_a_speedup_passes() -> None:
    assert decide(noisy(0.1, 30), RULE).outcome is Outcome.PASS


def test_in_between_goes_on_and_is_inconclusive_at_the_cap() -> None:
    values = noisy(-0.032, RULE.cap + 1)
    assert decide(values[:20], RULE).outcome is Outcome.OPEN
    assert decide(values, RULE).outcome is Outcome.INCONCLUSIVE
    assert decide(values, RULE).n == RULE.cap


def test_a_slowdown_within_the_margin_passes_although_it_is_certain() -> None:
    decision = decide(noisy(RULE.delta / 2, 30, sigma=0.001), RULE, looks=[30])
    assert decision.mean + decision.fail_width < 0, "it would fail, were the pass not tested first"
    assert decision.outcome is Outcome.PASS
    sign, at = first_terminal(np.array([noisy(RULE.delta / 2, 30, sigma=0.001)]), RULE, looks=[30])
    assert (list(sign), list(at)) == ([1], [30])


@pytest.mark.parametrize("pairs", range(6))
def test_nothing_is_decided_below_six_pairs(pairs: int) -> None:
    decision = decide([-0.5] * pairs, RULE)
    assert decision.outcome is Outcome.OPEN
    assert math.isnan(decision.mean)


def test_a_budget_below_the_first_look_is_inconclusive() -> None:
    assert decide([], replace(RULE, budget_pairs=5)).outcome is Outcome.INCONCLUSIVE


def test_looks_are_taken_where_they_are_given_up_to_the_first_at_the_cap() -> None:
    assert decide(noisy(0.0, 30), RULE, looks=[4, 16, 24]).n == 16
    assert decide(noisy(-0.032, 60), RULE, looks=[16, 36, 48]).n == 36
    assert decide(noisy(0.0, 20), RULE, looks=[4]).outcome is Outcome.OPEN
    assert decide(noisy(0.0, RULE.cap + 1), RULE, looks=[4]).outcome is Outcome.INCONCLUSIVE


def test_pairs_that_agree_by_luck_keep_a_quarter_of_the_noise() -> None:
    equal = decide([0.0] * 8, RULE, looks=[8])
    spread = decide(noisy(0.0, 8, sigma=0.04), RULE, looks=[8])
    assert 0 < equal.pass_width < spread.pass_width
    assert decide([0.0] * 8, replace(RULE, sigma=0.08), looks=[8]).pass_width > equal.pass_width


def test_a_hiccup_counts_as_three_sigma_whatever_it_was() -> None:
    calm = noisy(0.0, 10)
    mild, wild = (decide([*calm, hiccup], RULE, looks=[11]) for hiccup in (-0.5, -5.0))
    assert mild.mean == wild.mean
    assert mild.pass_width == wild.pass_width
    limit = RULE.delta - 3 * RULE.sigma
    assert mild.mean == pytest.approx(limit / 11)
    assert decide([*calm, 9.0], RULE, looks=[11]).mean == pytest.approx(3 * RULE.sigma / 11)


def test_the_estimate_is_of_the_raw_pairs_as_a_ratio() -> None:
    decision = decide([math.log(0.5)] * 30, RULE, looks=[30])
    assert decision.estimate.value == pytest.approx(0.5)
    assert decision.mean > math.log(0.5), "the decision sees clipped pairs"


def test_a_stored_error_widens_both_tests_by_its_reach() -> None:
    values = noisy(0.0, 20)
    # The same room with and without error, so that the mixture is the same and only the reach differs.
    error = StoredError(0.002, 0.001)
    stored = replace(RULE, error=error)
    margin = -math.expm1(-stored.room)
    plain = replace(RULE, margin=margin)
    a, b = decide(values, stored, looks=[20]), decide(values, plain, looks=[20])
    assert a.pass_width - b.pass_width == pytest.approx(stored.pass_reach)
    assert a.fail_width - b.fail_width == pytest.approx(stored.fail_reach)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@given(values=UNCLIPPED, data=st.data())
def test_a_pair_that_is_not_finite_is_void_wherever_it_stands(
    bad: float, values: list[float], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(values)))
    decision = decide([*values[:at], bad, *values[at:]], RULE)
    assert decision.outcome is Outcome.VOID
    assert "not a finite number" in decision.why


@pytest.mark.parametrize(
    "rule",
    [
        replace(RULE, sigma=0.0),
        replace(RULE, sigma=-0.04),
        replace(RULE, sigma=math.nan),
        replace(RULE, sigma=math.inf),
        replace(RULE, sigma=1e-200),
        replace(RULE, margin=0.0),
        replace(RULE, margin=1.0),
        replace(RULE, margin=math.nan),
        replace(RULE, alpha=0.0),
        replace(RULE, beta=0.5),
        replace(RULE, claims=0),
        replace(RULE, error=StoredError(math.nan, 0.0)),
        replace(RULE, error=StoredError(0.0, math.inf)),
        replace(RULE, error=StoredError(0.001, 0.001, dof=0)),
        replace(RULE, error=StoredError(0.05, 0.0)),
    ],
    ids=lambda rule: f"{rule.sigma}-{rule.margin}-{rule.alpha}-{rule.beta}-{rule.claims}-{rule.error}",
)
@pytest.mark.parametrize("values", [[0.0] * 3, [0.001, -0.001] * 10], ids=["few", "enough"])
def test_a_rule_that_is_not_defined_is_void_and_never_passes(rule: Rule, values: list[float]) -> None:
    assert decide(values, rule).outcome is Outcome.VOID


def test_an_estimate_that_overflows_is_void() -> None:
    assert decide([1e4] * 10, RULE).outcome is Outcome.VOID


def test_values_that_are_no_numbers_are_void() -> None:
    assert decide(["fast"] * 10, RULE).outcome is Outcome.VOID  # type: ignore[list-item]


@given(st.lists(st.floats(-0.3, 0.3), min_size=6, max_size=40), st.lists(st.floats(-0.3, 0.3), max_size=20))
def test_a_verdict_stands_whatever_is_measured_afterwards(values: list[float], more: list[float]) -> None:
    first = decide(values, RULE)
    if first.outcome in TERMINAL:
        assert decide([*values, *more], RULE) == first


def test_many_claims_at_once_end_as_each_alone() -> None:
    rows = np.random.default_rng(8).normal(-0.03, 0.04, (200, RULE.cap))
    signs, at = first_terminal(rows, RULE)
    code = {Outcome.PASS: 1, Outcome.FAIL: -1, Outcome.INCONCLUSIVE: 0}
    alone = [decide(list(row), RULE) for row in rows]
    assert list(signs) == [code[decision.outcome] for decision in alone]
    assert list(at) == [decision.n for decision in alone]
    assert set(signs) == {-1, 0, 1}


@given(UNCLIPPED)
def test_one_look_does_not_depend_on_the_order_of_the_pairs(values: list[float]) -> None:
    shuffled = sorted(values)
    one, other = (decide(order, RULE, looks=[len(values)]) for order in (values, shuffled))
    assert one.mean == pytest.approx(other.mean, abs=1e-12)
    assert one.pass_width == pytest.approx(other.pass_width, rel=1e-6)
    assert one.estimate.value == pytest.approx(other.estimate.value)


def test_many_looks_may_depend_on_the_order() -> None:
    good, bad = [0.0] * 8, [-0.119] * 8
    assert decide(good + bad, RULE).outcome is Outcome.PASS
    assert decide(bad + good, RULE).outcome is Outcome.FAIL


@given(st.lists(st.floats(-0.05, 0.05), min_size=6, max_size=20), st.floats(0.001, 0.06))
def test_a_faster_candidate_never_does_worse(values: list[float], faster: float) -> None:
    rank = {Outcome.FAIL: 0, Outcome.OPEN: 1, Outcome.INCONCLUSIVE: 1, Outcome.PASS: 2}
    before = decide(values, RULE, looks=[len(values)])
    after = decide([x + faster for x in values], RULE, looks=[len(values)])
    assert rank[after.outcome] >= rank[before.outcome]


@given(st.lists(st.floats(-0.2, 0.1), min_size=6, max_size=30))
def test_more_claims_never_fail_sooner(values: list[float]) -> None:
    one, many = decide(values, replace(RULE, claims=1)), decide(values, replace(RULE, claims=100))
    if many.outcome is Outcome.FAIL:
        assert one.outcome is Outcome.FAIL
        assert one.n <= many.n


TOGETHER = replace(RULE, intraclass=0.5, block_pairs=9)


def test_the_turns_of_two_visits_decide_nothing_however_many_they_are() -> None:
    """Eighteen pairs on two servers a side are worth 3.6: a server's luck is no regression."""
    unlucky = [-0.2 + noise for noise in noisy(0.0, 18, 0.02)]
    blocks = [0] * 9 + [1] * 9
    assert decide(unlucky, RULE, [18], blocks).outcome is Outcome.FAIL, "were they reckoned as independent"
    assert decide(unlucky, TOGETHER, [18], blocks).outcome is Outcome.OPEN
    assert decide(unlucky, TOGETHER, [18]).outcome is Outcome.FAIL, "each on servers of its own"


def test_enough_visits_decide_and_the_words_say_what_they_are_worth() -> None:
    blocks = [n // 9 for n in range(54)]
    decision = decide(noisy(-0.2, 54), TOGETHER, [54], blocks)
    assert decision.outcome is Outcome.FAIL
    assert decision.worth == pytest.approx(54 / 5)
    assert "after 54 pairs, worth 11 on servers of their own, the mean change is" in decision.why
    assert "worth" not in decide(noisy(-0.2, 54), RULE, [54], blocks).why


def test_the_spread_of_pairs_that_go_together_is_not_taken_for_less_than_it_is() -> None:
    """Two blocks of equal pairs, apart by 2: about their own mean they spread by 1, of which a block shares all."""
    values, blocks = [0.01, 0.01, 0.01, -0.01, -0.01, -0.01] * 3, [n // 3 for n in range(18)]
    alike = decide(values, replace(RULE, sigma=0.01, intraclass=1.0, block_pairs=3), [18], blocks)
    apart = decide([0.01, -0.01] * 3, replace(RULE, sigma=0.01), [6])
    assert alike.worth == apart.n == 6
    assert alike.fail_width == pytest.approx(apart.fail_width)
