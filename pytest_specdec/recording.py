"""From a panel's evidence to what the baseline keeps of it: the contrast by prompt, and what A/A says of its noise."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from pytest_specdec.baseline import Calibrated, Record, StoredContrast, write_calibrations
from pytest_specdec.baseline.entries import Direction
from pytest_specdec.errors import BaselineError
from pytest_specdec.expectation import DEFAULT_MARGIN, intraclass_of
from pytest_specdec.measure.pair_guards import autocorrelated, order_effect
from pytest_specdec.measure.question import Answer
from pytest_specdec.measure.rows import Row, prompt_of
from pytest_specdec.panels import Evidence
from pytest_specdec.records import Claim, Finding, Reason, Status
from pytest_specdec.speed import cycles_per_s, ratio
from pytest_specdec.stats.blocks import worth
from pytest_specdec.stats.calibration import Calibration, calibrate, pool, require_resolvable
from pytest_specdec.stats.rule import Rule

if TYPE_CHECKING:
    from pytest_specdec.session import Run

__all__ = ["calibration_of", "record_of"]


_REMEDY = "use a quiet machine, or block_prompts = 1 in the profile, so that every pair has servers of its own"


def calibration_of(run: Run, claim: Claim, evidence: Evidence) -> Finding:
    """Write what the sessions of this contrast spread by, and say it.

    A session is one pass over the prompts, each arm and block on a fresh server. Where two arms differ each prompt is
    compared with its own mean over the sessions, so that prompts that differ are no noise; a contrast of one thing with
    itself has 0 to be compared with.
    """
    aa = claim.across_builds or claim.over == claim.arms[0]
    sessions = _sessions(evidence.answer, centred=not aa)
    residuals = [value for session in sessions for _, value in session]
    blocks = [row.block for session in sessions for row, _ in session]
    void = order_effect(blocks, residuals, run.settings.margin or DEFAULT_MARGIN) or autocorrelated(residuals, blocks)
    if void is not None:
        return Finding(Status.VOID, void.reason, "A/A residuals", "independent ones", void.detail, _REMEDY)
    found = calibrate(
        [[value for _, value in session] for session in sessions], [[row.block for row, _ in s] for s in sessions]
    )
    if not aa:  # a prompt's mean over S sessions takes 1/S of its own variance out of each residual
        found = replace(found, sigma=found.sigma * math.sqrt(len(sessions) / max(1, len(sessions) - 1)))
    kept = _kept(found, run.machine)
    run.calibrated[claim.id] = kept
    lines = write_calibrations(run.baselines.path, run.profile.name, run.device, {claim.id: kept})
    return Finding(Status.PASS, Reason.HELD, lines[0].partition(": ")[2], "calibrated now", evidence=asdict(kept))


def record_of(run: Run, claim: Claim, evidence: Evidence) -> Record:
    """What the baseline is to keep of this contrast. Raises BaselineError when its error leaves no power."""
    calibrated = run.calibrated.get(claim.id) or run.baselines.calibrations.get(claim.id)
    if calibrated is None or run.is_other_machine(calibrated.machine):
        raise BaselineError(
            f"recording {claim.id}",
            "nobody has measured on this machine how much it spreads",
            "run it with --specdec-calibrate first",
        )
    sessions = run.profile.speed.sessions if run.settings.calibrate else 1
    rows = evidence.answer.rows
    tau, dof = _pooled(run)
    intraclass = intraclass_of(run, calibrated, run.workload(claim.on[0]))
    independent = worth([row.block for row in rows], intraclass)
    error = replace(_calibration(calibrated), tau=tau, tau_dof=dof).stored_error(independent, sessions)
    margin = run.settings.margin or DEFAULT_MARGIN
    rule = Rule(calibrated.sigma, margin, run.settings.alpha, run.settings.beta, run.profile.speed.claims, error=error)
    require_resolvable(rule, claim.id)
    reference, candidate = evidence.answer.question.sides[0]
    return Record(
        claim=claim.id,
        value=ratio(evidence).value,
        unit="×",
        tolerance=margin,
        direction=Direction.HIGHER,
        comparability=run.comparability(claim),
        contrast=StoredContrast(
            logs=_by_prompt(rows, [row.value for row in rows]),
            exact_logs=_by_prompt(rows, [row.exact for row in rows]),
            cycles_per_s=(
                cycles_per_s(evidence.measured.cells[reference]),
                cycles_per_s(evidence.measured.cells[candidate]),
            ),
            pairs=len(rows),
            sigma=calibrated.sigma,
            se=error.se,
            tau=tau,
            tau_dof=dof,
            margin=margin,
            intraclass=intraclass,
        ),
    )


def _sessions(answer: Answer, *, centred: bool) -> list[list[tuple[Row, float]]]:
    """The residuals of each session, in the order measured. The first time that a prompt is asked is session 1 …"""
    means = _by_prompt(answer.rows, [row.value for row in answer.rows])
    asked = Counter(prompt_of(row.prompt) for row in answer.rows)
    sessions: list[list[tuple[Row, float]]] = []
    seen: dict[str, int] = {}
    for row in answer.rows:
        prompt = prompt_of(row.prompt)
        if centred and asked[prompt] == 1:  # its own mean: a residual of 0, which would say that nothing spreads
            continue
        number = seen[prompt] = seen.get(prompt, -1) + 1
        if number == len(sessions):
            sessions.append([])
        sessions[number].append((row, row.value - (means[prompt] if centred else 0.0)))
    # The last round may have begun another pass: a few of its prompts are no session.
    return [session for session in sessions if 2 * len(session) >= len(sessions[0])]


def _by_prompt(rows: Sequence[Row], values: Sequence[float]) -> dict[str, float]:
    grouped: dict[str, list[float]] = {}
    for row, value in zip(rows, values, strict=True):
        grouped.setdefault(prompt_of(row.prompt), []).append(value)
    return {prompt: math.fsum(found) / len(found) for prompt, found in grouped.items()}


def _kept(found: Calibration, machine: str) -> Calibrated:
    """JSON has no NaN: with too few sessions tau has no degrees of freedom, which says the same."""
    return Calibrated(
        sigma=found.sigma,
        pairs=found.pairs,
        sessions=found.sessions,
        mean=found.mean,
        mean_se=found.mean_se,
        lag1=found.lag1,
        tau=found.tau if found.tau_dof else 0.0,
        tau_dof=found.tau_dof,
        intraclass=found.intraclass,
        date=datetime.date.today().isoformat(),
        machine=machine,
    )


def _pooled(run: Run) -> tuple[float, int]:
    """One tau for all contrasts of this machine: they share what differs between sessions."""
    known = {**run.baselines.calibrations, **run.calibrated}
    here = [_calibration(c) for c in known.values() if not run.is_other_machine(c.machine)]
    return pool(here)


def _calibration(stored: Calibrated) -> Calibration:
    return Calibration(**{name: value for name, value in asdict(stored).items() if name not in ("date", "machine")})
