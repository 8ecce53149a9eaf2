"""The order of a panel: who is measured when, on what."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.measure.panel import Panel, block_size, plan_panel
from pytest_specdec.records import CellKey, Mode, Prompt, Workload


def keys(*arms: str) -> list[CellKey]:
    return [CellKey(Mode.SPEED, "code", arm) for arm in arms]


def prompts(count: int) -> tuple[Prompt, ...]:
    return tuple(Prompt(f"p{number}", "text") for number in range(count))


def panel(arms: int = 3, count: int = 8, block: int = 4, seed: int = 1) -> Panel:
    return plan_panel("code", keys(*(f"arm{n}" for n in range(arms))), prompts(count), block, seed)


def test_every_second_block_visits_the_arms_in_reverse() -> None:
    one = panel()
    assert one.block(1).cells == one.block(0).cells[::-1]
    assert [block.cells for block in one.round(0)] == [block.cells for block in one.round(3)]


@given(arms=st.integers(2, 9), seed=st.integers(0, 99))
def test_over_a_round_each_arm_has_the_same_mean_position(arms: int, seed: int) -> None:
    visits = [key for block in panel(arms, seed=seed).round(0) for key in block.cells]
    positions = {key: [place for place, seen in enumerate(visits) if seen == key] for key in visits}
    assert {sum(places) for places in positions.values()} == {2 * arms - 1}


def test_a_conversation_is_one_block_unless_its_profile_cuts_it() -> None:
    single, talk = (Workload("w", prompts(18), {}, "sha", conversation=said) for said in (False, True))
    assert (block_size(single, 4), block_size(talk, 4)) == (4, 18)
    assert (block_size(replace(single, block_prompts=6), 4), block_size(replace(talk, block_prompts=3), 4)) == (6, 3)


def test_the_seed_draws_the_order_and_nothing_else_does() -> None:
    shuffled = plan_panel("code", keys("arm2", "arm0", "arm1", "arm1"), prompts(8), 4, 1)
    assert shuffled.cells == panel().cells
    assert len({panel(5, seed=seed).cells for seed in range(20)}) > 5


def test_blocks_go_through_the_prompts_and_begin_again() -> None:
    one = panel(count=10, block=4)
    asked = [[prompt.id for prompt in one.block(number).prompts] for number in range(4)]
    assert asked == [["p0", "p1", "p2", "p3"], ["p4", "p5", "p6", "p7"], ["p8", "p9"], ["p0", "p1", "p2", "p3"]]


@given(count=st.integers(1, 40), block=st.integers(1, 12), pairs=st.integers(1, 200))
def test_as_many_rounds_as_the_pairs_need(count: int, block: int, pairs: int) -> None:
    one = panel(count=count, block=block)
    rounds = one.rounds_for(pairs)
    assert one.pairs_after(rounds - 1) < pairs <= one.pairs_after(rounds)
    assert all(after > before for before, after in pairwise(one.pairs_after(n) for n in range(4)))
