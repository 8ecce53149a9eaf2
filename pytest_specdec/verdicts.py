"""What the end of a claim's test means: findings, failures and known deviations become one verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pytest_specdec.errors import ClientError, DeviceError, ServerError
from pytest_specdec.judge import Judge, JudgedError
from pytest_specdec.measure.failures import CellFailedError, failure_of
from pytest_specdec.measure.ledger import plain
from pytest_specdec.profile import recorded_as
from pytest_specdec.records import BASE_BUILD, CellKey, Claim, Finding, Json, Reason, Status, Verdict
from pytest_specdec.session import Run

__all__ = ["verdict_of"]


def verdict_of(run: Run, claim: Claim, judge: Judge | None, error: BaseException | None) -> Verdict | None:
    """The verdict, or None where ``error`` is a mistake of the suite or the machine and judges nothing."""
    finding = _finding(run, claim, judge, error)
    if finding is None:
        return None
    finding = _by_known_deviations(run, claim, finding)
    texts = {
        "measured": finding.measured,
        "expected": finding.expected,
        "source": claim.source,
        "detail": finding.detail,
        "remedy": finding.remedy,
    }
    return Verdict(
        claim=claim.id,
        status=finding.status,
        kind=claim.kind,
        reason=finding.reason,
        evidence=_whole(plain(finding.evidence)),
        **{name: _whole(text) for name, text in texts.items()},
    )


def _whole(value: Json) -> Json:
    """Half characters, which a server can send and UTF-8 cannot hold, become question marks."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _finding(run: Run, claim: Claim, judge: Judge | None, error: BaseException | None) -> Finding | None:
    if isinstance(error, JudgedError):
        return error.finding
    if isinstance(error, CellFailedError):
        return _of_failed_cell(run, error)
    if isinstance(error, (ServerError, ClientError, DeviceError)):
        arm = run.arm(error.arm or claim.arms[0])
        return _of_failed_cell(run, failure_of(CellKey(claim.mode, "live", arm.name), arm, error))
    if isinstance(error, AssertionError):
        words = str(error).partition("\n")[0][:200]
        return Finding(Status.FAIL, Reason.ASSERTION, words, "the test's own assertion")
    if error is not None:
        return None
    return _of_passed_test(judge)


def _of_passed_test(judge: Judge | None) -> Finding:
    if judge is not None and judge.measured_something:
        held = Finding(Status.PASS, Reason.HELD, "the test's own assertions", "that they hold")
        return _merged(judge.findings) if judge.findings else held
    # What a test says without having asked for anything is no measurement.
    return Finding(
        Status.FAIL,
        Reason.NOTHING_MEASURED,
        "nothing",
        "a measurement",
        "the test measured nothing",
        "ask the fixtures cells, contrast or server for something, and judge it",
    )


def _merged(findings: Sequence[Finding]) -> Finding:
    """The last finding's words, everyone's evidence."""
    evidence: dict[str, Json] = {}
    for finding in findings:
        evidence |= finding.evidence
    details = "; ".join(finding.detail for finding in findings if finding.detail)
    return replace(findings[-1], detail=details, evidence=evidence)


def _of_failed_cell(run: Run, failure: CellFailedError) -> Finding:
    expected = f"a measurement of {failure.key}"
    if failure.status is not Status.NOT_JUDGED:
        return Finding(failure.status, failure.reason, failure.summary, expected, failure.detail)
    if failure.key.build == BASE_BUILD:
        remedy = "compare with a build that can run it"
        return Finding(Status.NOT_JUDGED, failure.reason, failure.summary, expected, failure.detail, remedy)
    if run.cells.known(replace(failure.key, build=BASE_BUILD)) is not None:
        detail = f"the base build runs this arm: the new one has lost it\n{failure.detail}"
        return Finding(Status.FAIL, Reason.ARM_LOST, failure.summary, expected, detail)
    expecting = _who_expects(run, recorded_as(run.profile, failure.key.arm))
    if expecting:
        detail = f"{expecting}: a build that cannot run it has lost it\n{failure.detail}"
        return Finding(Status.FAIL, Reason.ARM_LOST, failure.summary, expected, detail)
    remedy = "use a build that can run it, and record it"
    return Finding(Status.NOT_JUDGED, failure.reason, failure.summary, expected, failure.detail, remedy)


def _who_expects(run: Run, arm: str) -> str:
    """What says that a build is to run this arm; empty where nothing does."""
    if run.baselines.knows_arm(arm):
        return f"{run.baselines.path} has records of this arm"
    if run.baselines.judges_the_profile and arm in run.profile.judged_arms:
        return f"the profile {run.profile.name} judges this arm, and the baselines have values for the profile"
    return ""


def _by_known_deviations(run: Run, claim: Claim, finding: Finding) -> Finding:
    known = run.baselines.deviations_of(claim.id, run.servers.identity.number)
    if finding.status is Status.PASS and known:
        detail = f"the known deviation {known[0].reference} did not happen"
        remedy = "if a build with the fix shows this too, end the deviation's range in the baselines"
        return replace(finding, reason=Reason.DEVIATION_GONE, detail=detail, remedy=remedy)
    words = f"{finding.measured}\n{finding.detail}"
    if finding.status is Status.FAIL:
        for deviation in known:
            if deviation.explains(finding.reason, words):
                detail = f"known: {deviation.instead} ({deviation.reference})"
                evidence = {**finding.evidence, "detail": finding.detail}
                return replace(
                    finding, status=Status.PASS, reason=Reason.KNOWN_DEVIATION, detail=detail, evidence=evidence
                )
        if known:
            told = ", ".join(dict.fromkeys(deviation.reference for deviation in known))
            return replace(finding, detail=f"not the known deviation ({told})\n{finding.detail}")
    return finding
