"""What a speed claim is compared with: which entry counts where, and what the panel is asked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pytest_specdec.baseline import Entry
from pytest_specdec.baseline.entries import EntryKind
from pytest_specdec.expectation import AGAIN, Expectation, expectation_of, sigma_of
from pytest_specdec.records import (
    BASE_BUILD,
    Budget,
    CellKey,
    Claim,
    Finding,
    Mode,
    Prompt,
    Reason,
    Settings,
    Status,
    UpdateBaseline,
)
from pytest_specdec.stats.rule import LEAST_PAIRS
from tests.unit.speed_evidence import (
    AS_USUAL,
    ELSEWHERE,
    HERE,
    PROMPTS,
    SETTING,
    Surroundings,
    calibrated,
    claim,
    contrast,
    published,
    recorded,
    small_plan,
    stored,
)


def expected(run: Surroundings, asked: Claim | None = None) -> Expectation:
    found = expectation_of(run, asked or claim())
    assert isinstance(found, Expectation), found
    return found


def finding(run: Surroundings, asked: Claim | None = None) -> Finding:
    found = expectation_of(run, asked or claim())
    assert isinstance(found, Finding), found
    return found


def with_entries(*entries: Entry, settings: Settings = AS_USUAL, **more: Any) -> Surroundings:
    return Surroundings(settings=settings, baselines=stored(*entries, **more))


def test_a_record_expects_each_prompt_as_it_was() -> None:
    found = expected(with_entries(recorded()))
    assert found.question.anchor == contrast().logs
    assert found.entry == recorded()
    assert found.words == "×2.000 − 5% (b1, 2026-11-01)"
    assert found.question.rule.sigma == 0.04, "that of the record, whose pairs it was"
    error = found.question.rule.error
    assert error is not None
    assert (error.se, error.tau, error.dof) == (0.001, 0.002, 9)


def test_a_record_whose_tau_is_not_known_has_no_degrees_of_freedom_to_lose() -> None:
    error = expected(with_entries(recorded(contrast=contrast(tau_dof=0)))).question.rule.error
    assert error is not None
    assert math.isinf(error.dof)


@pytest.mark.parametrize(("asked", "kept", "margin"), [(None, 0.02, 0.05), (None, 0.08, 0.08), (0.1, 0.08, 0.1)])
def test_a_record_is_never_judged_by_less_than_the_margin_that_it_can_resolve(
    asked: float | None, kept: float, margin: float
) -> None:
    run = with_entries(recorded(contrast=contrast(margin=kept)), settings=Settings(margin=asked))
    found = expected(run)
    assert found.question.rule.margin == margin
    assert f"− {margin:.0%}" in found.words


def test_a_record_of_another_setting_is_void_and_says_what_differs() -> None:
    run = with_entries(recorded())
    run.setting = replace(SETTING, models={"target": "c" * 64})
    found = finding(run)
    assert (found.status, found.reason) == (Status.VOID, Reason.BASELINE_MISMATCH)
    assert "target" in found.detail


def test_a_record_without_its_ratios_is_void() -> None:
    found = finding(with_entries(recorded(contrast=None)))
    assert (found.status, found.reason) == (Status.VOID, Reason.BASELINE_MISMATCH)
    assert found.detail == "the record has no ratios by prompt"


def test_a_plan_takes_the_setting_for_the_same_since_nobody_can_know_yet() -> None:
    run = with_entries(recorded())
    run.setting = None
    assert expected(run).entry == recorded()


def test_a_record_of_another_machine_leaves_the_published_floor() -> None:
    run = with_entries(recorded(machine=ELSEWHERE), published={"speedup.code": published()})
    found = expected(run)
    assert found.entry == published()
    assert found.question.anchor == pytest.approx(math.log(1.1))
    assert "another machine" in found.remark
    assert "--specdec-calibrate" in found.remark


def test_a_record_says_nothing_of_servers_whose_flags_nobody_knows() -> None:
    attached = Settings(server_urls=(("base", "http://h:1"), ("dflash2", "http://h:2")))
    for run in (with_entries(recorded(), settings=attached), with_entries(settings=attached)):
        found = finding(run)
        assert (found.status, found.reason) == (Status.NOT_JUDGED, Reason.NOT_CONTROLLED)
        assert "the flags of a server that is somebody else's are not known" in found.detail
        assert "--llama-server" in found.remedy
    floor = expected(with_entries(recorded(), settings=attached, published={"speedup.code": published()}))
    assert (floor.entry, floor.residuals) == (published(), False)


def test_a_record_of_another_machine_alone_is_no_fault_and_not_judged() -> None:
    found = finding(with_entries(recorded(machine=ELSEWHERE)))
    assert (found.status, found.reason) == (Status.NOT_JUDGED, Reason.NO_RECORD)
    assert "another machine" in found.detail


def test_a_published_floor_is_one_number_for_all_prompts() -> None:
    found = expected(with_entries(published(), settings=Settings(margin=0.1)))
    assert found.question.anchor == pytest.approx(math.log(1.1))
    assert found.question.rule.error is None, "an order that somebody stated has no error of measurement"
    assert found.words == "at least ×1.1 − 10% (published ×2.26 on rtx-pro-6000)"


def test_a_published_figure_without_a_floor_is_measured_and_decides_nothing() -> None:
    question = expected(with_entries(published(floor=None))).question
    assert (question.anchor, question.wanted) == (None, LEAST_PAIRS)


@pytest.mark.parametrize("entries", [(), (Entry("speedup.code", EntryKind.INVARIANT),)])
def test_without_an_entry_it_is_not_judged_and_the_remedy_is_told(entries: tuple[Entry, ...]) -> None:
    found = finding(with_entries(*entries))
    assert (found.status, found.reason) == (Status.NOT_JUDGED, Reason.NO_RECORD)
    assert "--specdec-calibrate" in found.remedy


def test_one_record_that_is_missing_among_others_is_a_fault() -> None:
    found = finding(with_entries(recorded(claim="speedup.prose")))
    assert (found.status, found.reason) == (Status.FAIL, Reason.RECORD_MISSING)


def test_a_record_of_something_that_is_not_timed_makes_no_missing_record_a_fault() -> None:
    found = finding(with_entries(recorded(claim="tokens_per_cycle[dflash2]", contrast=None)))
    assert found.status is Status.NOT_JUDGED


@pytest.mark.parametrize("entries", [(), (published(),), (recorded(),), (recorded(machine=ELSEWHERE),)])
def test_calibrating_compares_with_nothing(entries: tuple[Entry, ...]) -> None:
    found = expected(with_entries(*entries, settings=Settings(calibrate=True)))
    assert (found.entry, found.question.anchor) == (None, None)


@pytest.mark.parametrize(
    ("update", "entry", "records"),
    [
        (UpdateBaseline.ALL, recorded(), True),
        (UpdateBaseline.ALL, published(), True),
        (UpdateBaseline.NEW, recorded(), False),
        (UpdateBaseline.NEW, published(), True),
        (UpdateBaseline.OFF, published(), False),
    ],
)
def test_an_update_records_all_and_a_new_one_what_nobody_recorded(
    update: UpdateBaseline, entry: Entry, records: bool
) -> None:
    found = expected(with_entries(entry, settings=Settings(update_baseline=update)))
    assert (found.question.anchor is None) is records
    assert (found.entry is None) is records


@pytest.mark.parametrize(
    ("prompts", "sessions", "calibrate", "wanted"),
    [
        (8, 5, False, 24),  # three passes make the twenty pairs from which a spread is known
        (8, 5, True, 40),
        (8, 2, True, 24),
        (30, 5, False, 30),
        (20, 5, False, 20),
    ],
)
def test_whole_passes_are_recorded(prompts: int, sessions: int, calibrate: bool, wanted: int) -> None:
    run = Surroundings(
        settings=Settings(calibrate=calibrate, update_baseline=UpdateBaseline.ALL),
        profile=small_plan(sessions=sessions),
        code=replace(Surroundings().code, prompts=tuple(Prompt(f"p{n}", "text") for n in range(prompts))),
    )
    assert expected(run).question.wanted == wanted


def test_two_builds_need_nothing_stored() -> None:
    asked = claim(over=None, across_builds=True)
    found = expected(with_entries(recorded()), asked)
    assert found.entry is None
    assert found.question.anchor == {prompt.id: 0.0 for prompt in PROMPTS}
    dflash2 = CellKey(Mode.SPEED, "code", "dflash2")
    assert found.question.sides == ((replace(dflash2, build=BASE_BUILD), dflash2),)
    assert expected(with_entries(settings=Settings(calibrate=True)), asked).question.anchor is None


def test_values_are_residuals_where_their_noise_was_measured_on_this_machine() -> None:
    two_builds = claim(over=None, across_builds=True)
    here, elsewhere = ({"speedup.code": calibrated(machine=machine)} for machine in (HERE, ELSEWHERE))
    assert expected(with_entries(calibrations=here), two_builds).residuals
    assert not expected(with_entries(calibrations=elsewhere), two_builds).residuals
    assert not expected(with_entries(), two_builds).residuals, "against a guess no session is noisy"
    assert expected(with_entries(recorded())).residuals
    assert not expected(with_entries(published())).residuals, "a floor is no value"


def test_what_pairs_share_is_calibrated_or_the_workload_s_or_the_profile_s_guess() -> None:
    measured = {"speedup.code": calibrated(intraclass=0.3)}
    single = {"speedup.code": calibrated(intraclass=None)}
    guess = small_plan().speed.intraclass
    assert expected(with_entries(published())).question.rule.intraclass == guess
    for known, intraclass in ((measured, 0.3), (single, guess)):
        run = with_entries(published(), calibrations=known)
        assert expected(run).question.rule.intraclass == intraclass
    run = with_entries(published())
    run.code = replace(run.code, intraclass=0.7, block_prompts=3)
    assert (expected(run).question.rule.intraclass, expected(run).question.rule.block_pairs) == (0.7, 3)
    assert expected(with_entries(recorded(contrast=contrast(intraclass=0.2)))).question.rule.intraclass == 0.2


def test_a_claim_about_cells_alone_asks_for_enough_of_each() -> None:
    question = expected(with_entries(), claim(over=None, arms=("base", "dflash2"))).question
    assert question.sides == ()
    assert {key.arm for key in question.cells} == {"base", "dflash2"}
    assert question.wanted == LEAST_PAIRS


def test_an_arm_over_itself_is_measured_twice() -> None:
    ((reference, candidate),) = expected(with_entries(published()), claim(over="dflash2")).question.sides
    assert (reference.arm, reference.build) == ("dflash2", AGAIN)
    assert (candidate.arm, candidate.build) == ("dflash2", "new")


def test_a_ratio_of_two_contrasts_has_four_cells() -> None:
    asked = claim(against="dflash1@7", against_over="base1")
    sides = expected(with_entries(published()), asked).question.sides
    assert [(a.arm, b.arm) for a, b in sides] == [("base", "dflash2"), ("base1", "dflash1@7")]


def test_a_part_of_the_workload_counts_alone_and_repetitions_with_their_prompt() -> None:
    run = with_entries(published())
    run.code = replace(run.code, prompts=(*PROMPTS, replace(PROMPTS[0], id="p0#2")))
    assert set(expected(run, claim(group="build")).question.prompts) == {f"p{n}" for n in range(6)}
    assert len(expected(run).question.prompts) == len(PROMPTS)


@pytest.mark.parametrize(
    ("more", "exact"),
    [({}, True), ({"request": {"temperature": 0.7}}, False), ({"request": {"seed": -1}, "sampled": True}, False)],
)
def test_tokens_per_cycle_are_exact_under_greedy_decoding_alone(more: dict[str, Any], exact: bool) -> None:
    run = with_entries(published())
    run.code = replace(run.code, **more)
    assert expected(run).question.exact is exact


def test_alpha_is_divided_among_the_claims_of_the_profile_or_those_selected_if_more() -> None:
    run = with_entries(published(), settings=Settings(budget=Budget(pairs=9)))
    rule = expected(run).question.rule
    assert (rule.claims, rule.cap) == (40, 9)
    run.statistical_claims = 41
    assert expected(run).question.rule.claims == 41


def test_the_spread_is_what_was_calibrated_here_else_a_guess() -> None:
    here = Surroundings(baselines=stored(calibrations={"speedup.code": calibrated(0.03)}))
    there = Surroundings(baselines=stored(calibrations={"speedup.code": calibrated(0.03, ELSEWHERE)}))
    assert sigma_of(here, claim()) == 0.03
    assert sigma_of(there, claim()) == 0.05, "the profile's"
    assert sigma_of(there, claim(), replace(there.code, sigma=0.15)) == 0.15, "the workload's"
    assert sigma_of(here, claim(), replace(there.code, sigma=0.15)) == 0.03
    assert sigma_of(here, claim(id="other")) == 0.05
