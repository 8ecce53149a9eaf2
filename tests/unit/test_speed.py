"""From a panel's evidence to the finding of a claim: which guard leaves nothing to decide, and what made it slower."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pytest_specdec.baseline import Entry
from pytest_specdec.measure.question import Question
from pytest_specdec.records import Cell, CellKey, Figure, FigureKind, Finding, Reason, Status, Timings, Void
from pytest_specdec.speed import cycles_per_s, finding_of, ratio
from tests.support import generation
from tests.unit.measure.test_question import ARM, BASE, cell, cells, question
from tests.unit.speed_evidence import contrast, evidence, published, recorded

SPEED = frozenset({FigureKind.SPEED})
THROTTLED = Void(Reason.THROTTLED, SPEED, "thermal slowdown")
TWICE = math.log(2)
UNDECIDED = [0.072, -0.008] * 8  # between no change and the margin
PROMPTS = [f"p{n}" for n in range(40)]


def measured(arm_ms: float = 2.0, accepted: int = 30, *, base_ms: float = 1.0, blocks: int = 4) -> dict[CellKey, Cell]:
    """``dflash2`` with four tokens a cycle, each twice as dear as one of ``base``: twice as fast."""
    return cells(a=cell(BASE, base_ms, blocks=blocks), b=cell(ARM, arm_ms, accepted=accepted, blocks=blocks))


def record(value: float = TWICE, exact: float = math.log(4), **more: Any) -> Entry:
    """A record by prompt of just that."""
    logs, exacts = dict.fromkeys(PROMPTS, value), dict.fromkeys(PROMPTS, exact)
    return recorded(contrast=contrast(logs=logs, exact_logs=exacts, cycles_per_s=(1000.0, 500.0), **more))


def found(asked: Question, every: dict[CellKey, Cell], rounds: int = 2, **more: Any) -> Finding:
    return finding_of(evidence(asked.answer(every, rounds), every, rounds=rounds, **more))


def against_record(every: dict[CellKey, Cell], entry: Entry | None = None) -> Finding:
    stored = entry or record()
    assert stored.contrast is not None
    asked = question(stored.contrast.logs)
    rule = replace(asked.rule, sigma=stored.contrast.sigma)
    asked = replace(asked, prompts=dict.fromkeys(PROMPTS, ""), rule=rule)
    return found(asked, every, rounds=len(every[ARM].generations) // 8, entry=stored, residuals=True)


def some_void(every: dict[CellKey, Cell], void: Void, count: int) -> dict[CellKey, Cell]:
    """The first ``count`` generations of the arm are void."""
    spoiled = [replace(g, voids=(void,)) if n < count else g for n, g in enumerate(every[ARM].generations)]
    return {**every, ARM: Cell(ARM, tuple(spoiled))}


def varied(logs: list[float]) -> dict[CellKey, Cell]:
    """``dflash2`` as measured above, but each reply slower by its own amount."""
    every = measured(blocks=len(logs) // 4)
    slower = [
        replace(g, timings=replace(g.timings, predicted_ms=g.timings.predicted_ms * math.exp(log)))
        for g, log in zip(every[ARM].generations, logs, strict=True)
    ]
    return {**every, ARM: Cell(ARM, tuple(slower))}


def test_a_pass_tells_the_ratio_and_its_two_factors() -> None:
    passed = found(question(math.log(1.9)), measured(), entry=published(), remark="as an aside")
    assert (passed.status, passed.reason) == (Status.PASS, Reason.HELD)
    assert passed.measured == (
        "×2.000 (2.000–2.000, 16 pairs) = ×4.00 tokens per cycle, ×0.50 cycles per second"
    )  # fmt: skip
    assert passed.detail == "as an aside", "no caveat is needed where nothing is held against a build"
    assert (passed.evidence["ratio"], passed.evidence["pairs"]) == (pytest.approx(2.0), 16)
    assert passed.evidence["tokens_per_cycle_ratio"] == pytest.approx(4.0)
    assert passed.evidence["arm"] == "dflash2 / base"
    assert passed.evidence["outcome"] == "pass"


@pytest.mark.parametrize(("longer", "status"), [(8, Status.PASS), (10, Status.VOID)])
def test_pairs_that_are_left_of_mostly_other_lengths_decide_nothing(longer: int, status: Status) -> None:
    """Replies that ran on, four times as long and far slower: where they are many, the others are no fair sample."""
    every = measured()
    changed = [
        replace(g, timings=replace(g.timings, predicted_n=g.timings.predicted_n * 4, predicted_ms=1e4))
        if n < longer
        else g
        for n, g in enumerate(every[ARM].generations)
    ]
    judged = found(question(math.log(1.9)), {**every, ARM: Cell(ARM, tuple(changed))}, entry=published())
    assert judged.status is status
    assert status is Status.PASS or judged.reason is Reason.LENGTH_MISMATCH


def test_other_figures_have_no_exact_part() -> None:
    passed = found(replace(question(0.0), figure=Figure.PREFILL), measured(1.0), entry=published())
    assert "tokens per cycle" not in passed.measured


def test_the_cells_are_told_with_the_valid_generations_alone() -> None:
    every = some_void(measured(), THROTTLED, 4)
    every[ARM] = Cell(ARM, tuple(replace(g, timings=replace(g.timings, predicted_ms=1e6)) if g.voids else g
                                 for g in every[ARM].generations))  # fmt: skip
    figures = found(question(math.log(1.9)), every, entry=published()).evidence["cells"]["speed/code/dflash2"]
    assert (figures["generations"], figures["valid"]) == (16, 12)
    assert figures["tokens_per_s"] == pytest.approx(2000.0)
    assert figures["cycles_per_s"] == pytest.approx(500.0)


def test_below_a_published_floor_is_another_reason_than_slower_than_a_record() -> None:
    floor = found(question(math.log(2.5)), measured(), entry=published())
    assert (floor.status, floor.reason) == (Status.FAIL, Reason.BELOW_FLOOR)
    assert "caveat: measured once" in floor.detail
    assert "cause" not in floor.detail, "a floor says nothing of the parts"
    slower = against_record(measured(2.4))
    assert (slower.status, slower.reason) == (Status.FAIL, Reason.SLOWER)


@pytest.mark.parametrize(
    ("every", "cause"),
    [
        (measured(2.4), "cause: cost per cycle"),
        (measured(2.0, accepted=27), "cause: text or acceptance"),
        (measured(2.4, base_ms=1.2, accepted=25), "cause: text or acceptance, base decode"),
        (measured(2.0, base_ms=0.8), "cause: cost per cycle"),  # it did not gain what the target alone did
    ],
)
def test_what_made_it_slower_than_its_record_is_named(every: dict[CellKey, Cell], cause: str) -> None:
    slower = against_record(every)
    assert slower.status is Status.FAIL
    assert cause in slower.detail.splitlines()
    assert "against the record: tokens per cycle" in slower.detail


def test_a_record_without_speeds_still_names_the_text() -> None:
    """An old one may have kept none: a change from nothing is no change."""
    entry = record()
    assert entry.contrast is not None
    bare = replace(entry, contrast=replace(entry.contrast, cycles_per_s=(0.0, 0.0)))
    slower = against_record(measured(2.0, accepted=27), bare)
    assert "its cycles per second +0.0%, those of the reference +0.0%" in slower.detail


def test_a_pass_against_a_record_names_no_cause() -> None:
    assert against_record(measured()).detail == ""


def test_what_is_recorded_is_held_whatever_it_is() -> None:
    new = found(question(None, wanted=16), measured(9.0), remark="recorded now")
    assert (new.status, new.reason, new.detail) == (Status.PASS, Reason.HELD, "recorded now")
    assert "outcome" not in new.evidence


@pytest.mark.parametrize("anchor", [None, math.log(1.9)])
def test_a_panel_that_drifted_decides_nothing_and_keeps_its_evidence(anchor: float | None) -> None:
    drift = Void(Reason.CLOCK_DRIFT, SPEED, "slower by the end")
    void = found(question(anchor, wanted=16), measured(), void=drift, entry=published())
    assert (void.status, void.reason, void.detail) == (Status.VOID, Reason.CLOCK_DRIFT, "slower by the end")
    assert void.evidence["pairs"] == 16
    assert void.remedy


def test_a_cell_that_is_void_voids_the_claim() -> None:
    every = measured()
    every[ARM] = replace(every[ARM], voids=(Void(Reason.SYNTHETIC_ACCEPTANCE, SPEED, "made up"),))
    assert found(question(math.log(1.9)), every).reason is Reason.SYNTHETIC_ACCEPTANCE


def test_an_idle_drafter_says_nothing_of_prefill() -> None:
    every = measured(1.0)
    every[ARM] = replace(every[ARM], voids=(Void(Reason.DRAFTER_IDLE, SPEED, "no draft"),))
    assert found(replace(question(0.0), figure=Figure.PREFILL), every, entry=published()).status is Status.PASS
    assert found(question(0.0), every, entry=published()).reason is Reason.DRAFTER_IDLE


def test_where_every_generation_is_void_the_most_frequent_guard_is_named() -> None:
    early = Void(Reason.EARLY_STOP, SPEED, "it stopped by itself")
    every = some_void(some_void(measured(), THROTTLED, 16), early, 3)
    void = found(question(None, wanted=16), every)
    assert (void.status, void.reason) == (Status.VOID, Reason.THROTTLED)
    assert void.detail == "13 of 32 generations, for example: thermal slowdown"
    assert void.measured == "no valid pair"


def test_two_sides_that_are_never_alike_are_void_without_any_guard() -> None:
    every = measured()
    every[ARM] = Cell(
        ARM, tuple(replace(g, timings=replace(g.timings, predicted_n=200)) for g in every[ARM].generations)
    )
    assert found(question(None, wanted=16), every).reason is Reason.LENGTH_MISMATCH


def test_an_open_claim_with_voids_is_void_and_without_them_inconclusive() -> None:
    """Nothing was decided, and it is the guards that left too few pairs."""
    near, asked = varied(UNDECIDED), question(TWICE)
    undecided = found(asked, near, entry=published())
    assert (undecided.status, undecided.reason) == (Status.INCONCLUSIVE, Reason.NOT_ENOUGH_EVIDENCE)
    assert "--specdec-resume" in undecided.remedy
    void = found(asked, some_void(near, THROTTLED, 1), entry=published())
    assert (void.status, void.reason) == (Status.VOID, Reason.THROTTLED)


def test_enough_pairs_make_voids_no_excuse() -> None:
    asked = replace(question(TWICE), rule=replace(question(TWICE).rule, budget_pairs=8))
    near = some_void(varied(UNDECIDED), THROTTLED, 1)
    assert found(asked, near, entry=published()).reason is Reason.NOT_ENOUGH_EVIDENCE


def test_a_fail_among_voids_stays_a_fail() -> None:
    assert against_record(some_void(measured(3.0), THROTTLED, 4)).status is Status.FAIL


def test_residuals_that_go_together_are_void_against_a_record_alone() -> None:
    every = varied(([0.15] * 4 + [-0.1] * 4) * 5)
    assert against_record(every, record(sigma=0.15)).reason is Reason.AUTOCORRELATED
    assert against_record(varied([0.15, -0.1] * 20), record(sigma=0.15)).reason is not Reason.AUTOCORRELATED
    assert found(question(math.log(1.9)), every, entry=published()).reason is not Reason.AUTOCORRELATED


def test_residuals_noisier_than_they_were_are_void_against_a_record_alone() -> None:
    every = varied([0.1, -0.1] * 8)
    assert against_record(every).reason is Reason.NOISY_SESSION
    assert found(question(math.log(1.9)), every, entry=published()).reason is not Reason.NOISY_SESSION


def test_a_generation_without_decode_time_is_void_and_no_error() -> None:
    every = measured()
    broken = replace(every[ARM].generations[0], timings=Timings(0, 10, 10.0, 41, 0.0, 60, 30))
    every[ARM] = Cell(ARM, (broken, *every[ARM].generations[1:]))
    void = found(question(math.log(1.9)), every, entry=published())
    assert (void.status, void.reason) == (Status.VOID, Reason.ARITHMETIC)


def test_no_pairs_have_no_ratio() -> None:
    every = cells(a=cell(BASE, 1.0, blocks=0), b=cell(ARM, 1.0, blocks=0))
    assert math.isnan(ratio(evidence(question(0.0).answer(every, 0), every)).value)
    assert found(question(0.0), every, rounds=0).measured == "no valid pair"


def test_cycles_per_second_are_the_median_of_what_is_valid() -> None:
    def made(predicted_n: int, predicted_ms: float, **more: Any) -> Any:
        return generation([1], cell=ARM, timings=Timings(0, 5, 1.0, predicted_n, predicted_ms, 0, 0), **more)

    usable = (made(11, 10.0), made(11, 20.0), made(11, 40.0))
    without = (made(1, 10.0), made(11, 0.0), made(11, 1.0, voids=(THROTTLED,)))
    assert cycles_per_s(Cell(ARM, (*usable, *without))) == pytest.approx(500.0)
    assert cycles_per_s(Cell(ARM, without)) == 0.0
