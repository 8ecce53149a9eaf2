"""Turns what a claim's test found into its verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from pytest_specdec.availability import record_says_nothing
from pytest_specdec.baseline import Comparability, Record, compare
from pytest_specdec.baseline.entries import Direction, Entry, EntryKind
from pytest_specdec.errors import SuiteError
from pytest_specdec.records import (
    Cell,
    Claim,
    ClaimKind,
    Estimate,
    FigureKind,
    Finding,
    Json,
    Reason,
    Status,
    UpdateBaseline,
)

if TYPE_CHECKING:
    from pytest_specdec.session import Run

__all__ = ["BaselineJudge", "Judge", "JudgedError", "SpeedFigure"]


class JudgedError(Exception):
    """Ends a claim's test at its first finding that is not a pass."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.status}: {finding.measured}, expected {finding.expected}")
        self.finding = finding


class Judge:
    """What a claim's test asserts with. Each assertion is a finding; the first that is not a pass ends the test."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.findings: list[Finding] = []
        self.records: list[Record] = []
        self.cells: list[Cell] = []
        self.measured_something = False

    def judge(self, finding: Finding) -> None:
        """Take over a finding that a comparison came to."""
        self.findings.append(finding)
        if finding.status is not Status.PASS:
            raise JudgedError(finding)

    def holds(
        self,
        condition: bool,
        *,
        measured: str,
        expected: str,
        otherwise: Reason = Reason.ASSERTION,
        detail: str = "",
        evidence: Mapping[str, Json] | None = None,
    ) -> None:
        """``measured`` and ``expected`` in a few words each; ``otherwise`` is the reason code of the failure."""
        self.judge(
            Finding(
                status=Status.PASS if condition else Status.FAIL,
                reason=Reason.HELD if condition else otherwise,
                measured=measured,
                expected=expected,
                detail="" if condition else detail,
                evidence=evidence or {},
            )
        )

    def reports(self, measured: str, why: str, evidence: Mapping[str, Json]) -> None:
        """End the test with a figure that is told and judged by nobody; ``why`` nobody does."""
        nothing = "no verdict: it is a report"
        self.judge(Finding(Status.NOT_JUDGED, Reason.REPORTED, measured, nothing, why, evidence=evidence))

    def counterexample(self, reason: Reason, measured: str, commands: str, prompt: str) -> None:
        """End a property test at one example; which one it is, shrunk, is settled when the last one fails."""
        raise JudgedError(
            Finding(
                Status.FAIL, reason, measured, "what the target alone answers",
                f"the smallest example that was found; to see it again:\n{commands}",
                "it is kept in .hypothesis and tried first next time", {"prompt": prompt, "commands": commands},
            )
        )  # fmt: skip

    def examples(self, check: Callable[[], None]) -> None:
        """Run a property. What failed once and not again fails it too: its server remembers what came before."""
        from hypothesis.errors import FlakyFailure

        try:
            check()
        except FlakyFailure as flaky:
            for error in flaky.exceptions:
                if isinstance(error, JudgedError):
                    once = "it failed once and not again, so it depends on earlier requests; not shrunk"
                    raise JudgedError(replace(error.finding, detail=f"{once}\n{error.finding.detail}")) from None
            raise

    def valid(self, cell: Cell, figure: FigureKind) -> None:
        """The claim is void where a guard spoiled this kind of figure."""
        void = cell.void_for(figure)
        if void is not None:
            self.judge(Finding(Status.VOID, void.reason, f"{figure} of {cell.key}", "a valid measurement", void.detail))


@dataclass(frozen=True, slots=True)
class SpeedFigure:
    """A figure of a contrast: the ratio as measured (None where nothing was), its judgement, and what to record."""

    ratio: Estimate | None
    finding: Finding
    record: Record | None


class BaselineJudge:
    """Compares with the claim's stored entry, or records it when the user asked for that."""

    def __init__(self, judge: Judge, run: Run) -> None:
        self._judge = judge
        self._run = run

    def holds(
        self, value: float | SpeedFigure, *, unit: str = "", tolerance: float = 0.05, direction: str = "higher"
    ) -> None:
        """``value`` is no worse than its record by more than ``tolerance`` (relative).

        ``direction`` says which way is better: higher, lower or equal (any move counts). The figure of a contrast
        brings its own rule, which has decided while it was measured.
        """
        if isinstance(value, SpeedFigure):
            if value.record is not None:
                self._judge.records.append(value.record)
            self._judge.judge(value.finding)
            return
        if not math.isfinite(value):
            self._judge.judge(Finding(Status.VOID, Reason.ARITHMETIC, f"{value} {unit}", "a finite figure"))
        if self._run.settings.server_urls:
            self._judge.judge(self._on_attached_servers(value, unit))
            return
        entry = self._run.baselines.entry(self._judge.claim.id)
        comparability = self._run.comparability(self._judge.claim)
        record = Record(self._judge.claim.id, value, unit, tolerance, Direction(direction), comparability)
        if self._records(entry):
            self._refuse_spoiled()
            self._judge.records.append(record)
            measured = f"{value:.3f} {unit}"
            self._judge.judge(Finding(Status.PASS, Reason.HELD, measured, "recorded now", evidence={"value": value}))
            return
        if entry is None:
            self._judge.judge(self._missing(record))
            return
        self._judge.judge(compare(entry, value, unit, comparability, date.today()))

    def behaves(self, behaviour: str, *, measured: str, otherwise: Reason, evidence: Mapping[str, Json]) -> None:
        """``behaviour`` is the one that this build's lineage has; a change of it is named as a change."""
        entry = self._run.baselines.entry(self._judge.claim.id)
        if entry is None or not entry.lineages:
            raise SuiteError(
                f"judging the behaviour of {self._judge.claim.id}",
                "no baseline entry has lineages for it",
                "add an invariant entry with lineages to any.json",
            )
        number = self._run.servers.identity.number
        lineage = next((lineage for lineage in entry.lineages if lineage.covers(number)), None)
        known = ", ".join(f"{lineage.name}: {lineage.expect}" for lineage in entry.lineages)
        held = lineage is not None and behaviour == lineage.expect
        self._judge.holds(
            held,
            measured=f"{behaviour} ({measured})",
            expected=f"{lineage.expect} ({lineage.name})" if lineage else "a build of a known lineage",
            otherwise=otherwise,
            detail=f"the behaviour changed; known lineages: {known}",
            evidence=evidence,
        )

    def _on_attached_servers(self, value: float, unit: str) -> Finding:
        """What was published holds anywhere; a record was made with models and flags that nobody knows here."""
        stored, name = self._run.baselines, self._judge.claim.id
        entry = stored.entry(name)
        if entry is None or entry.kind is EntryKind.RECORDED:
            entry = stored.published.get(name)
        if entry is None:
            return record_says_nothing(f"{value:.3f} {unit}", {"value": value})
        return compare(entry, value, unit, Comparability({}, {}, ""), date.today())

    def _refuse_spoiled(self) -> None:
        """What a guard spoiled is never recorded, even where the suite did not ask."""
        for cell in self._judge.cells:
            self._judge.valid(cell, FigureKind.ACCEPTANCE)

    def _records(self, entry: Entry | None) -> bool:
        update = self._run.settings.update_baseline
        return update is UpdateBaseline.ALL or (update is UpdateBaseline.NEW and entry is None)

    def _missing(self, record: Record) -> Finding:
        measured = f"{record.value:.3f} {record.unit}"
        remedy = "record it with --specdec-update-baseline=new"
        evidence: dict[str, Json] = {"value": record.value}
        stored = self._run.baselines
        timed = self._judge.claim.kind is ClaimKind.SPEED
        if stored.has_speed_records if timed else stored.has_records:
            return Finding(
                Status.FAIL, Reason.RECORD_MISSING, measured, f"a record in {stored.path}",
                "other claims have records on this device, so that one is missing is a fault", remedy, evidence,
            )  # fmt: skip
        return Finding(
            Status.NOT_JUDGED, Reason.NO_RECORD, measured, "a record", f"none on {stored.device}",
            remedy, evidence,
        )  # fmt: skip
