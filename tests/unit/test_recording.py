"""What a calibration and a record keep of a panel: sessions, spread, their error, and when there is nothing to keep."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.baseline import load
from pytest_specdec.baseline.entries import Direction
from pytest_specdec.errors import BaselineError
from pytest_specdec.measure.question import Answer
from pytest_specdec.measure.rows import Row
from pytest_specdec.panels import Evidence
from pytest_specdec.recording import calibration_of, record_of
from pytest_specdec.records import Claim, Reason, Settings, Status
from tests.unit.measure.test_question import ARM, BASE, cell, cells, question
from tests.unit.speed_evidence import (
    AS_USUAL,
    ELSEWHERE,
    HERE,
    Surroundings,
    calibrated,
    claim,
    evidence,
    small_plan,
    stored,
)

SELF = claim(id="noise.dflash2", over="dflash2")  # A/A: the ratio that it should have is 1
PROMPTS = 20


def run_in(directory: Path, settings: Settings = AS_USUAL, **more: Any) -> Any:
    """A run whose baseline is a file; typed as anything, since a whole Run has a build and a device."""
    path = directory / "tiny" / "cpu.json"
    return Surroundings(settings=settings, baselines=stored(path=path, **more))


def noise(sigma: float, count: int, seed: int = 1) -> list[float]:
    """Independent values of exactly that spread about 0."""
    rng = random.Random(seed)
    drawn = [rng.gauss(0, 1) for _ in range(count)]
    centre = math.fsum(drawn) / count
    spread = math.sqrt(math.fsum((value - centre) ** 2 for value in drawn) / (count - 1))
    return [sigma * (value - centre) / spread for value in drawn]


def sessions(*passes: Sequence[float], exact: float = 0.0) -> list[Row]:
    """One pass over the prompts after the other, in blocks of four."""
    return [
        Row(f"p{n}", (number * PROMPTS + n) // 4, value, exact)
        for number, values in enumerate(passes)
        for n, value in enumerate(values)
    ]


def measured(rows: Sequence[Row]) -> Evidence:
    """A panel with these rows; ``base`` makes 1,000 cycles a second, ``dflash2`` 500."""
    every = cells(a=cell(BASE, 1.0), b=cell(ARM, 2.0, accepted=30))
    answer = Answer(question(None), rows, [row.value for row in rows], None, False)
    return evidence(answer, every)


def kept(run: Any, asked: Claim) -> Any:
    """What the file has of the claim now."""
    return json.loads(run.baselines.path.read_text("utf-8"))["calibrations"][asked.id]


def test_what_a_thing_differs_from_itself_by_is_its_spread(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    found = calibration_of(run, SELF, measured(sessions(*(noise(0.03, PROMPTS, seed) for seed in range(5)))))
    assert (found.status, found.reason) == (Status.PASS, Reason.HELD)
    assert kept(run, SELF)["sigma"] == pytest.approx(0.03, rel=0.02)  # hiccups are clipped, if there are any
    assert (kept(run, SELF)["pairs"], kept(run, SELF)["sessions"], kept(run, SELF)["tau_dof"]) == (100, 5, 4)
    assert kept(run, SELF)["machine"] == HERE
    assert load(tmp_path, "tiny", "cpu").calibrations[SELF.id] == run.calibrated[SELF.id]


def test_prompts_that_differ_are_no_noise_where_two_arms_differ(tmp_path: Path) -> None:
    run, asked = run_in(tmp_path), claim()
    prompts = noise(0.5, PROMPTS, seed=99)
    passes = [[a + b for a, b in zip(prompts, noise(0.03, PROMPTS, seed), strict=True)] for seed in range(5)]
    calibration_of(run, asked, measured(sessions(*passes)))
    assert kept(run, asked)["sigma"] == pytest.approx(0.03, rel=0.1)
    with_itself = run_in(tmp_path / "self")
    calibration_of(with_itself, SELF, measured(sessions(*passes[:1])))
    assert kept(with_itself, SELF)["sigma"] > 0.3, "an arm that differs from itself by prompt is noisy"


def test_two_builds_are_one_thing_measured_twice(tmp_path: Path) -> None:
    run, asked = run_in(tmp_path), claim(over=None, across_builds=True)
    calibration_of(run, asked, measured(sessions(noise(0.03, PROMPTS))))
    assert kept(run, asked)["sessions"] == 1


def test_the_mean_of_a_prompt_takes_its_share_out_of_the_spread_and_gets_it_back(tmp_path: Path) -> None:
    """Of two passes each residual is half of their difference."""
    run, asked = run_in(tmp_path), claim()
    first, second = noise(0.03, PROMPTS, 1), noise(0.03, PROMPTS, 2)
    calibration_of(run, asked, measured(sessions(first, second)))
    halves = [(a - b) / 2 for a, b in zip(first, second, strict=True)]
    spread = math.sqrt(math.fsum(h * h for h in halves) / (PROMPTS - 1))
    assert kept(run, asked)["sigma"] == pytest.approx(spread * math.sqrt(2), rel=0.05)


def test_one_pass_over_different_arms_has_no_spread_and_leaves_the_file_alone(tmp_path: Path) -> None:
    """A budget can end after it. A spread of 0 would be no measurement, and no file that can be read again."""
    run = run_in(tmp_path)
    with pytest.raises(BaselineError, match="--specdec-budget"):
        calibration_of(run, claim(), measured(sessions(noise(0.03, PROMPTS))))
    assert not run.baselines.path.exists()
    assert run.calibrated == {}


def test_a_prompt_that_was_asked_once_says_nothing_of_its_spread(tmp_path: Path) -> None:
    run, asked = run_in(tmp_path), claim()
    first, second = noise(0.03, PROMPTS, 1), noise(0.03, PROMPTS, 2)[:12]
    calibration_of(run, asked, measured(sessions(first, second)))
    assert (kept(run, asked)["pairs"], kept(run, asked)["sessions"]) == (24, 2)


@pytest.mark.parametrize(("begun", "counted"), [(9, 2), (10, 3)])
def test_a_pass_that_was_only_begun_is_no_session(begun: int, counted: int, tmp_path: Path) -> None:
    run = run_in(tmp_path)
    passes = [noise(0.03, PROMPTS, 1), noise(0.03, PROMPTS, 2), noise(0.03, PROMPTS, 3)[:begun]]
    calibration_of(run, SELF, measured(sessions(*passes)))
    assert kept(run, SELF)["sessions"] == counted


def test_too_few_sessions_have_no_tau_and_json_can_say_so(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    calibration_of(run, SELF, measured(sessions(*(noise(0.03, PROMPTS, seed) for seed in range(4)))))
    assert (kept(run, SELF)["tau"], kept(run, SELF)["tau_dof"]) == (0.0, 0)


THREE_PASSES = sessions(*(noise(0.004, PROMPTS, seed) for seed in range(3)))


def test_an_order_effect_is_void_and_nothing_is_kept(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    rows = [replace(row, value=row.value + (0.1 if row.block % 2 else -0.1)) for row in THREE_PASSES]
    found = calibration_of(run, SELF, measured(rows))
    assert (found.status, found.reason) == (Status.VOID, Reason.ORDER_EFFECT)
    assert not run.baselines.path.exists()
    assert run.calibrated == {}


def test_the_order_of_the_arms_matters_by_the_margin_that_was_asked_for(tmp_path: Path) -> None:
    rows = [replace(row, value=row.value + (0.02 if row.block % 2 else -0.02)) for row in THREE_PASSES]
    assert calibration_of(run_in(tmp_path), SELF, measured(rows)).reason is Reason.ORDER_EFFECT
    wide = run_in(tmp_path, Settings(margin=0.3))
    assert calibration_of(wide, SELF, measured(rows)).status is Status.PASS


def test_blocks_that_go_together_are_void(tmp_path: Path) -> None:
    rows = sessions(*([0.03] * PROMPTS if number % 4 < 2 else [-0.03] * PROMPTS for number in range(8)))
    assert calibration_of(run_in(tmp_path), SELF, measured(rows)).reason is Reason.AUTOCORRELATED


def test_another_claim_keeps_its_calibration(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    rows = measured(sessions(noise(0.03, PROMPTS)))
    calibration_of(run, SELF, rows)
    calibration_of(run, replace(SELF, id="other"), rows)
    assert set(json.loads(run.baselines.path.read_text("utf-8"))["calibrations"]) == {SELF.id, "other"}


CALIBRATED = calibrated(0.01, tau=0.001, tau_dof=30, intraclass=0.25)
WORTH = 40 / (1 + 3 * 0.25)  # independent pairs: forty in blocks of four that correlate by a quarter
TWO_PASSES = sessions([0.7] * PROMPTS, [0.8] * PROMPTS, exact=1.4)


def recording(directory: Path, **more: Any) -> Any:
    """A run with the calibration of ``speedup.code``."""
    return run_in(directory, calibrations={"speedup.code": CALIBRATED}, **more)


def test_a_record_keeps_each_prompt_s_mean_and_both_sides_speeds(tmp_path: Path) -> None:
    record = record_of(recording(tmp_path), claim(), measured(TWO_PASSES))
    contrast = record.contrast
    assert contrast is not None
    assert contrast.logs == pytest.approx({f"p{n}": 0.75 for n in range(PROMPTS)})
    assert contrast.exact_logs == pytest.approx({f"p{n}": 1.4 for n in range(PROMPTS)})
    assert contrast.cycles_per_s == pytest.approx((1000.0, 500.0))
    assert (contrast.pairs, contrast.sigma) == (40, 0.01)
    assert (record.unit, record.direction) == ("×", Direction.HIGHER)
    assert record.value == pytest.approx(math.exp(0.75))


def test_a_prompt_that_comes_again_under_a_number_is_the_same_prompt(tmp_path: Path) -> None:
    rows = [replace(row, prompt=f"{row.prompt}#2") if row.block >= 5 else row for row in TWO_PASSES]
    contrast = record_of(recording(tmp_path), claim(), measured(rows)).contrast
    assert contrast is not None
    assert set(contrast.logs) == {f"p{n}" for n in range(PROMPTS)}


@pytest.mark.parametrize("machine", [None, ELSEWHERE])
def test_without_a_calibration_of_this_machine_nothing_is_recorded(machine: str | None, tmp_path: Path) -> None:
    calibrations = {} if machine is None else {"speedup.code": calibrated(0.03, machine)}
    with pytest.raises(BaselineError, match="--specdec-calibrate"):
        record_of(run_in(tmp_path, calibrations=calibrations), claim(), measured(TWO_PASSES))


def test_a_calibration_of_this_run_comes_before_a_stored_one(tmp_path: Path) -> None:
    run = recording(tmp_path)
    run.calibrated["speedup.code"] = replace(CALIBRATED, sigma=0.02, intraclass=0.1)
    contrast = record_of(run, claim(), measured(TWO_PASSES)).contrast
    assert contrast is not None
    assert (contrast.sigma, contrast.intraclass) == (0.02, 0.1)


@pytest.mark.parametrize(("calibrate", "counted"), [(False, 1), (True, 5)])
def test_the_error_of_a_record_is_of_its_pairs_and_its_sessions(calibrate: bool, counted: int, tmp_path: Path) -> None:
    run = recording(tmp_path, settings=Settings(calibrate=calibrate))
    contrast = record_of(run, claim(), measured(TWO_PASSES)).contrast
    assert contrast is not None
    assert contrast.se == pytest.approx(math.sqrt(0.01**2 / WORTH + 0.001**2 / counted))
    assert contrast.intraclass == 0.25


def test_what_pairs_share_is_measured_and_kept(tmp_path: Path) -> None:
    """Visits that differ, as on a machine that others use: no reason to refuse, once the pairs count as fewer."""
    run = run_in(tmp_path)
    visits = noise(0.04, 25, seed=8)
    own = noise(0.02, 100, seed=9)
    rows = sessions(*([visits[n // 4] + own[n] for n in range(first, first + 20)] for first in range(0, 100, 20)))
    assert calibration_of(run, SELF, measured(rows)).status is Status.PASS
    assert kept(run, SELF)["intraclass"] == pytest.approx(0.8, abs=0.1)
    assert load(tmp_path, "tiny", "cpu").calibrations[SELF.id] == run.calibrated[SELF.id]


def test_of_pairs_on_servers_of_their_own_nobody_knows_what_they_would_share(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    rows = [replace(row, block=n) for n, row in enumerate(sessions(noise(0.03, PROMPTS)))]
    calibration_of(run, SELF, measured(rows))
    assert kept(run, SELF)["intraclass"] is None


def test_sessions_differ_alike_for_all_contrasts_of_this_machine(tmp_path: Path) -> None:
    calibrations = {
        "speedup.code": calibrated(0.01, tau=0.0),
        "speedup.prose": calibrated(0.01, tau=0.002),
        "session.k4v": calibrated(0.01, tau=0.0, tau_dof=0),  # too few sessions to know
        "elsewhere": calibrated(0.01, ELSEWHERE, tau=0.5),
    }
    contrast = record_of(run_in(tmp_path, calibrations=calibrations), claim(), measured(TWO_PASSES)).contrast
    assert contrast is not None
    assert contrast.tau == pytest.approx(math.sqrt((0.0 + 0.002**2) / 2))
    assert contrast.tau_dof == 8


def test_a_record_that_could_not_resolve_the_margin_is_refused_and_a_wider_one_is_kept(tmp_path: Path) -> None:
    calibrations = {"speedup.code": calibrated(0.03, tau=0.02)}
    with pytest.raises(BaselineError, match="more than half of the margin"):
        record_of(run_in(tmp_path, calibrations=calibrations), claim(), measured(TWO_PASSES))
    run = run_in(tmp_path, Settings(margin=0.6), calibrations=calibrations)
    record = record_of(run, claim(), measured(TWO_PASSES))
    assert record.contrast is not None
    assert record.tolerance == record.contrast.margin == 0.6


def test_a_tau_that_nobody_knows_leaves_no_power(tmp_path: Path) -> None:
    calibrations = {"speedup.code": calibrated(0.03, tau=0.0, tau_dof=0)}
    with pytest.raises(BaselineError):
        record_of(run_in(tmp_path, calibrations=calibrations), claim(), measured(TWO_PASSES))


def test_more_claims_share_alpha_so_a_record_must_be_surer(tmp_path: Path) -> None:
    calibrations = {"speedup.code": calibrated(0.01, tau=0.0015, tau_dof=9)}
    alone = run_in(tmp_path, calibrations=calibrations)
    alone.profile = small_plan(claims=1)
    assert record_of(alone, claim(), measured(TWO_PASSES)).contrast is not None
    many = run_in(tmp_path, calibrations=calibrations)
    many.profile = small_plan(claims=4000)
    with pytest.raises(BaselineError):
        record_of(many, claim(), measured(TWO_PASSES))
