"""The speed panels of one run: planned from the selected claims, measured when the first of them asks, kept."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.expectation import AGAIN, Expectation, expectation_of
from pytest_specdec.measure.panel import Panel, block_size, plan_panel
from pytest_specdec.measure.question import Answer, Question
from pytest_specdec.measure.runner import Bench, Measured, PanelRunner
from pytest_specdec.measure.servers import AttachedServers
from pytest_specdec.measure.station import Limits, Station, occupied
from pytest_specdec.records import Cell, CellKey, Claim, Finding, Mode, Workload

if TYPE_CHECKING:
    from pytest_specdec.session import Run

__all__ = ["Evidence", "Panels", "panel_of"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a panel has to say to one claim."""

    expectation: Expectation
    answer: Answer
    measured: Measured


class Panels:
    """All speed panels of a run. One is measured once; xdist's workers share it through the run directory."""

    def __init__(self, run: Run, claims: Sequence[Claim]) -> None:
        self._run = run
        speed = [claim for claim in claims if is_measured_in_a_panel(claim) and run.unavailable(claim) is None]
        self._claims = {claim.id: claim for claim in speed}
        self._expected: dict[str, Expectation | Finding] = {}
        self._measured: dict[str, Measured] = {}

    def evidence(self, claim: Claim) -> Evidence | Finding:
        """What was measured for ``claim``, now if nobody has; a finding where nothing needs to be measured.

        Raises CellFailedError where one of its cells could not be.
        """
        expected = self._expectation(claim)
        if isinstance(expected, Finding):
            return expected
        measured = self._panel(claim.on[0])
        return Evidence(expected, measured.answer(expected.question), measured)

    def cell(self, key: CellKey) -> Cell:
        """One cell of a panel. Raises CellFailedError."""
        measured = self._panel(key.workload)
        if key in measured.failures:
            raise measured.failures[key]
        return measured.cells[key]

    def questions(self, workload: str) -> list[Question]:
        """What the selected claims ask of the panel on ``workload``."""
        expected = [self._expectation(claim) for claim in self._claims.values() if claim.on[0] == workload]
        return [e.question for e in expected if isinstance(e, Expectation)]

    @property
    def workloads(self) -> list[str]:
        """The panels, in the order in which their claims were collected."""
        return list(dict.fromkeys(claim.on[0] for claim in self._claims.values()))

    def _expectation(self, claim: Claim) -> Expectation | Finding:
        if claim.id not in self._expected:
            self._expected[claim.id] = expectation_of(self._run, claim)
        return self._expected[claim.id]

    def _panel(self, name: str) -> Measured:
        if name not in self._measured:
            with self._run.ledger.locked(f"panel-{name}"):
                self._measured[name] = self._measure(name)
        return self._measured[name]

    def _measure(self, name: str) -> Measured:
        run, workload, questions = self._run, self._run.workload(name), self.questions(name)
        bench = Bench(
            servers_of=lambda build: run.servers if build == AGAIN else run.servers_of(build),
            ledger=run.ledger,
            arm=run.arm,
            stall_timeout_s=run.profile.stall_timeout_s,
            warm_up_tokens=run.profile.speed.warm_up_tokens,
            progress=run.progress,
            station=lambda: self._station(name),
        )
        panel = panel_of(workload, questions, run.profile.speed.block_prompts, run.seed)
        run.progress(f"{name}: waiting until the exact cells that have begun are measured")
        with run.ahead.paused():
            return PanelRunner(bench, panel, workload, questions, self._limit_s(name)).measure()

    def _limit_s(self, name: str) -> float | None:
        """Each panel's share of the device time, by the prompts and arms that it has."""
        budget_s = self._run.settings.budget.seconds
        if budget_s is None:
            return None
        sizes = {other: sum(len(q.cells) for q in self.questions(other)) for other in self.workloads}
        return budget_s * sizes[name] / max(1, sum(sizes.values()))

    def _station(self, name: str) -> AbstractContextManager[Station]:
        """The device to ourselves, and watched."""
        run, thermal = self._run, self._run.profile.thermal
        deep = "depth_chars" in run.profile.workloads[name]
        limits = Limits(
            start_c=thermal.context_start_c if deep and thermal.context_start_c is not None else thermal.arm_start_c,
            foreign_share=run.profile.speed.foreign_share,
            wait_s=run.settings.cooldown_timeout_s,
            pause_s=thermal.throttle_pause_s,
            attached=isinstance(run.servers, AttachedServers),
        )
        return occupied(run.own_device, run.ledger.telemetry_path, limits)


def is_measured_in_a_panel(claim: Claim) -> bool:
    """In speed mode, on a workload."""
    return claim.mode is Mode.SPEED and bool(claim.on)


def panel_of(workload: Workload, questions: Sequence[Question], block_prompts: int, seed: int) -> Panel:
    """The panel that these questions need: their arms, and the prompts that count for any of them."""
    counted = {prompt for question in questions for prompt in question.prompts}
    prompts = tuple(prompt for prompt in workload.prompts if prompt.id.partition("#")[0] in counted)
    cells = [key for question in questions for key in question.cells]
    return plan_panel(workload.name, cells, prompts, block_size(workload, block_prompts), seed)
