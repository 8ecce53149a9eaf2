"""What the fixture ``lossless`` hands out: comparisons of drafted replies with those of the target alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec import lossless
from pytest_specdec.judge import Judge
from pytest_specdec.lossless import Noises
from pytest_specdec.measure.replay import LiveReplay
from pytest_specdec.records import Cell, CellKey, Effort, FigureKind, Finding, Generation, Reason, Status
from pytest_specdec.server.client import Client
from pytest_specdec.session import BASE, Run

if TYPE_CHECKING:
    from hypothesis import settings

__all__ = ["Lossless"]


class Lossless:
    """Judges tokens up to ties within the noise that this run has measured on this build and device."""

    def __init__(self, run: Run, judge: Judge, root: Path) -> None:
        self._run = run
        self._judge = judge
        self._root = root

    @property
    def noise(self) -> Noises:
        """The measured noise, of verifications and of large batches."""
        return self._run.noise

    @property
    def effort(self) -> Effort:
        """How much a claim may take on that grows with what it is given."""
        return self._run.settings.property_effort

    @property
    def property_settings(self) -> settings:
        """Hypothesis settings for the effort that was asked for; decorate a property with them."""
        from pytest_specdec.properties import settings_for

        return settings_for(self._run.settings.property_effort, self._root)

    def same(self, base: Cell, other: Cell, kind: str = "") -> None:
        """The cells' tokens are the same, past every tie; with ``kind`` only the prompts of that kind are judged."""
        for cell in (base, other):
            self._judge.valid(cell, FigureKind.LOSSLESS)
        workload = self._run.workload(base.key.workload)
        requests = {prompt.id: (prompt, {**workload.request, **prompt.request}) for prompt in workload.prompts}
        siblings = {name: _of_kind(cell, kind) for name, cell in self._siblings(base, other)}
        noise = self.noise.verification
        with LiveReplay(self._client, other.key.arm, BASE, requests, max(noise.widths, default=1)) as replay:
            finding = lossless.judge(_of_kind(base, kind), _of_kind(other, kind), noise, replay, siblings)
        self._judge.judge(_with_drafts(finding, _drafted(_of_kind(other, kind))))

    def same_replies(
        self, base: Sequence[Generation], other: Sequence[Generation], *, large_batches: bool = False
    ) -> None:
        """The replies' tokens are the same; behind a tie the rest of that reply is not judged.

        ``large_batches``: other slots or a cache had their part in how a row was computed.
        """
        noise = self.noise.large_batch if large_batches else self.noise.verification
        self._judge.judge(_with_drafts(lossless.judge_replies(base, other, noise), _drafted(other)))

    def same_seed(self, base: Cell, other: Cell, kind: str = "") -> None:
        """Equal seeds gave equal tokens, but for the few that rounding moves over the edge of a random draw."""
        for cell in (base, other):
            self._judge.valid(cell, FigureKind.LOSSLESS)
        replies = _of_kind(other, kind)
        finding = lossless.judge_sampled(_of_kind(base, kind), replies, self.noise.verification)
        self._judge.judge(_with_drafts(finding, _drafted(replies)))

    def same_distribution(
        self,
        base: Mapping[str, Sequence[Sequence[int]]],
        other: Mapping[str, Sequence[Sequence[int]]],
        known: Mapping[tuple[str, tuple[int, ...]], Mapping[int, float]],
        positions: Sequence[int],
        drafted: int,
    ) -> None:
        """Sampled tokens are distributed as the target alone draws them; ``drafted`` were for the replies ``other``."""
        self._judge.judge(_with_drafts(lossless.judge_distribution(base, other, known, positions), drafted))

    def _siblings(self, base: Cell, other: Cell) -> Iterator[tuple[str, Cell]]:
        """Other drafted arms that this run has already measured on that workload."""
        for name in self._run.profile.judged_arms:
            cell = self._run.cells.known(CellKey(base.key.mode, base.key.workload, name))
            if cell is not None and name != other.key.arm and len(cell.generations) == len(base.generations):
                yield name, cell

    @contextmanager
    def _client(self, arm: str) -> Iterator[Client]:
        timeout_s = self._run.profile.stall_timeout_s
        opened = self._run.servers.running(self._run.arm(arm), self._judge.claim.mode)
        with opened as server, Client(server, timeout_s) as client:
            yield client


def _of_kind(cell: Cell, kind: str) -> Sequence[Generation]:
    return [g for g in cell.generations if g.prompt_id.startswith(kind)]


def _drafted(replies: Sequence[Generation]) -> int:
    return sum(g.timings.draft_n for g in replies)


def _with_drafts(finding: Finding, drafted: int) -> Finding:
    """A reply that nothing was drafted for proves nothing: equality without a single draft is no pass."""
    evidence = {**finding.evidence, "drafted": drafted}
    if finding.status is Status.PASS and not drafted:
        return Finding(
            Status.INCONCLUSIVE, Reason.NO_POWER, "no drafts in these replies", "drafts to compare", evidence=evidence
        )
    return replace(finding, evidence=evidence)
