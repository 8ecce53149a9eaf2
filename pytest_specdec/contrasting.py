"""What the fixture ``contrast`` hands out: the declared arm over the declared reference, measured when asked for."""

from __future__ import annotations

from pytest_specdec.errors import SuiteError
from pytest_specdec.judge import Judge, SpeedFigure
from pytest_specdec.panels import is_measured_in_a_panel
from pytest_specdec.records import Claim, Figure, Finding, Status, UpdateBaseline
from pytest_specdec.session import Run

__all__ = ["ContrastView"]


class ContrastView:
    """The contrast of one claim. Each property is one figure as a ratio, above 1 where the arm is better."""

    def __init__(self, claim: Claim, run: Run, judge: Judge) -> None:
        self._claim = claim
        self._run = run
        self._judge = judge

    @property
    def throughput(self) -> SpeedFigure:
        """Decoded tokens per second: tokens per cycle times cycles per second."""
        return self._figure(Figure.THROUGHPUT)

    @property
    def cycles_per_s(self) -> SpeedFigure:
        """Passes of the target per second: the cost of a cycle."""
        return self._figure(Figure.CYCLES_PER_S)

    @property
    def token_gap(self) -> SpeedFigure:
        """Mean inter-token latency of the reference over that of the arm."""
        return self._figure(Figure.TOKEN_GAP)

    @property
    def first_token(self) -> SpeedFigure:
        """Time to first token of the reference over that of the arm."""
        return self._figure(Figure.FIRST_TOKEN)

    @property
    def prefill(self) -> SpeedFigure:
        """Prompt tokens per second."""
        return self._figure(Figure.PREFILL)

    def _figure(self, figure: Figure) -> SpeedFigure:
        claim = self._claim
        compares = claim.over is not None or claim.across_builds
        if not is_measured_in_a_panel(claim) or not compares or claim.figure is not figure:
            raise SuiteError(
                f"asking for {figure} of the contrast of {claim.id}",
                f"the claim declares arm={claim.arms[0]!r}, over={claim.over!r}, figure={claim.figure.value!r}",
                f'declare arm=, over=, on= and figure="{figure.value}", so that the panel knows when it is decided',
            )
        self._judge.measured_something = True
        return _judged(self._run, claim)


def _judged(run: Run, claim: Claim) -> SpeedFigure:
    from pytest_specdec.recording import calibration_of, record_of
    from pytest_specdec.speed import finding_of, ratio

    evidence = run.panels.evidence(claim)
    if isinstance(evidence, Finding):
        return SpeedFigure(None, evidence, None)
    finding = finding_of(evidence)
    if run.settings.calibrate and finding.status is Status.PASS:
        finding = calibration_of(run, claim, evidence)
    record = None
    to_record = (
        evidence.answer.decision is None
        and evidence.expectation.entry is None
        and run.settings.update_baseline is not UpdateBaseline.OFF
    )
    if to_record and finding.status is Status.PASS:
        record = record_of(run, claim, evidence)
    return SpeedFigure(ratio(evidence), finding, record)
