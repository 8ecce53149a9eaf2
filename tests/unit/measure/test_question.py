"""What a claim asks of a panel, and how far the evidence answers it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pytest_specdec.measure.question import Question
from pytest_specdec.measure.rows import rows_of
from pytest_specdec.records import Cell, CellKey, Figure, FigureKind, Mode, Reason, Timings, Void
from pytest_specdec.stats.decision import Outcome
from pytest_specdec.stats.rule import Rule
from tests.support import generation

BASE, ARM, OTHER, OWN = (CellKey(Mode.SPEED, "code", arm) for arm in ("base", "dflash2", "dflash1", "base1"))
RULE = Rule(0.04, claims=40)
PER_BLOCK = 4
PROMPTS = {f"p{n}": "" for n in range(16)}


def cell(key: CellKey, ms_per_cycle: float, *, accepted: int = 0, blocks: int = 4, **more: Any) -> Cell:
    """Forty decoded tokens a prompt, of which ``accepted`` cost no cycle."""
    cycles = 40 - accepted
    timings = Timings(0, 10, 10 * ms_per_cycle, 41, cycles * ms_per_cycle, 2 * accepted, accepted)
    made = [
        generation(
            range(41), cell=key, prompt_id=f"p{block * PER_BLOCK + n}", block=block, ordinal=n, timings=timings,
            counters=None, **more,
        )
        for block in range(blocks)
        for n in range(PER_BLOCK)
    ]  # fmt: skip
    return Cell(key, tuple(made))


def question(anchor: float | Mapping[str, float] | None, **more: object) -> Question:
    sides = more.pop("sides", ((BASE, ARM),))
    return Question("claim", sides, Figure.THROUGHPUT, PROMPTS, RULE, anchor, **more)  # type: ignore[arg-type]


def cells(**arms: Cell) -> dict[CellKey, Cell]:
    return {made.key: made for made in arms.values()}


def test_a_row_is_the_whole_log_ratio_and_its_exact_part() -> None:
    rows = rows_of(((BASE, ARM),), cells(a=cell(BASE, 1.0), b=cell(ARM, 2.0, accepted=30)), Figure.THROUGHPUT, PROMPTS)
    assert len(rows) == 16
    assert {round(row.value, 9) for row in rows} == {round(math.log(2), 9)}  # four tokens a cycle, each twice as dear
    assert {round(row.exact, 9) for row in rows} == {round(math.log(4), 9)}


def test_two_contrasts_are_compared_place_by_place() -> None:
    every = cells(
        a=cell(BASE, 1.0), b=cell(ARM, 2.0, accepted=30), c=cell(OWN, 3.0), d=cell(OTHER, 3.0, accepted=20, blocks=2)
    )
    rows = rows_of(((BASE, ARM), (OWN, OTHER)), every, Figure.THROUGHPUT, PROMPTS)
    assert len(rows) == 8  # only what both have
    assert rows[0].value == pytest.approx(math.log(2) - math.log(2))
    assert rows[0].exact == pytest.approx(math.log(4) - math.log(2))


def test_prefill_is_judged_where_the_reply_is_void() -> None:
    void = (Void(Reason.EARLY_STOP, frozenset({FigureKind.SPEED}), "at once"),)
    every = cells(a=cell(BASE, 1.0, voids=void), b=cell(ARM, 2.0, voids=void))
    assert rows_of(((BASE, ARM),), every, Figure.THROUGHPUT, PROMPTS) == []
    rows = rows_of(((BASE, ARM),), every, Figure.PREFILL, PROMPTS)
    assert [row.value for row in rows] == pytest.approx([-math.log(2)] * 16)


def test_a_floor_is_on_the_cost_of_a_cycle_given_the_tokens_per_cycle() -> None:
    every = cells(a=cell(BASE, 1.0), b=cell(ARM, 2.0, accepted=30))  # twice as fast
    answer = question(math.log(1.9)).answer(every, rounds=2)
    assert answer.decision is not None
    assert answer.decision.outcome is Outcome.PASS
    assert answer.values == pytest.approx([math.log(2 / 1.9)] * 16)
    failed = question(math.log(2.5)).answer(every, rounds=2).decision
    assert failed is not None
    assert failed.outcome is Outcome.FAIL


def test_a_record_by_prompt_expects_each_prompt_as_it_was() -> None:
    expected = {f"p{n}": math.log(2) for n in range(12)}
    answer = question(expected).answer(cells(a=cell(BASE, 1.0), b=cell(ARM, 2.0, accepted=30)), rounds=2)
    assert len(answer.rows) == 12, "a prompt that is not in the record decides nothing"
    assert answer.values == pytest.approx([0.0] * 12)


def test_it_looks_only_at_the_end_of_whole_rounds() -> None:
    every = cells(a=cell(BASE, 1.0), b=cell(ARM, 1.0))
    assert question(0.0).answer(every, rounds=0).rows == []
    answer = question(0.0).answer(every, rounds=1)
    assert answer.decision is not None
    assert answer.decision.n == 8


def test_the_pairs_of_a_block_count_by_what_they_share() -> None:
    every = cells(a=cell(BASE, 1.0), b=cell(ARM, 1.3))
    assert question(0.0).answer(every, rounds=1).decision is not None
    together = replace(question(0.0), rule=replace(RULE, intraclass=1.0, block_pairs=PER_BLOCK))
    answer = together.answer(every, rounds=2)
    assert answer.open, "16 pairs on four servers a side are worth four"
    assert together.most_pairs == pytest.approx(4 * RULE.cap, abs=4)


def test_later_evidence_does_not_overturn_an_answer() -> None:
    slow_at_first = Cell(ARM, cell(ARM, 1.5, blocks=2).generations + cell(ARM, 0.5).generations[8:])
    early, late = (question(0.0).answer(cells(a=cell(BASE, 1.0), b=slow_at_first), rounds) for rounds in (1, 2))
    assert early.decision is not None
    assert late.decision is not None
    assert (early.decision.outcome, late.decision.outcome) == (Outcome.FAIL, Outcome.FAIL)
    assert late.decision.n == 8


def test_where_guards_void_everything_it_gives_up() -> None:
    void = (Void(Reason.EARLY_STOP, frozenset({FigureKind.SPEED}), "at once"),)
    every = cells(a=cell(BASE, 1.0, voids=void), b=cell(ARM, 1.0))
    assert question(0.0).answer(every, rounds=1).open
    assert not question(0.0).answer(every, rounds=2).open


def test_a_record_is_a_number_of_tries_and_decides_nothing() -> None:
    every = cells(a=cell(BASE, 1.0), b=cell(ARM, 1.0))
    answer = question(None, wanted=17).answer(every, rounds=2)
    assert answer.decision is None
    assert answer.open
    assert not question(None, wanted=16).answer(every, rounds=2).open


def test_cells_alone_are_asked_for_by_number() -> None:
    alone = question(None, sides=(), alone=frozenset({BASE, ARM}), wanted=16)
    assert not alone.answer(cells(a=cell(BASE, 1.0), b=cell(ARM, 1.0)), rounds=2).open
    assert alone.answer(cells(a=cell(BASE, 1.0), b=cell(ARM, 1.0, blocks=3)), rounds=2).open
