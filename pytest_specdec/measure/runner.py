"""Measures a panel round by round until every question is answered, the cap is reached or the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace

from pytest_specdec.errors import ClientError, ServerError
from pytest_specdec.measure.cells import refuse_unknown_flags, synthetic_voids
from pytest_specdec.measure.conversation import Script
from pytest_specdec.measure.failures import CellFailedError, failure_of
from pytest_specdec.measure.guards import drafter_idle, generation_voids
from pytest_specdec.measure.ledger import Ledger, plain
from pytest_specdec.measure.pair_guards import clock_drift
from pytest_specdec.measure.panel import Block, Panel
from pytest_specdec.measure.question import Answer, Question
from pytest_specdec.measure.servers import Servers
from pytest_specdec.measure.station import Station
from pytest_specdec.records import Arm, Cell, CellKey, Generation, Prompt, Void, Workload
from pytest_specdec.server.client import Client
from pytest_specdec.wording import counted, lasting

__all__ = ["Bench", "Measured", "PanelRunner"]

# Neutral words, and few: the tables of a lookup drafter outlive requests, and a server's first pass is its slowest.
_WARM_UP = "The first request warms the server up."


@dataclass(frozen=True)
class Bench:
    """What a panel is measured with. ``station`` gives the device to us alone for as long as it is entered."""

    servers_of: Callable[[str], Servers]  # by the build's role
    ledger: Ledger
    arm: Callable[[str], Arm]
    stall_timeout_s: float
    warm_up_tokens: int
    progress: Callable[[str], None]
    station: Callable[[], AbstractContextManager[Station]]


@dataclass(frozen=True)
class Measured:
    """A panel's evidence: its cells, those that failed, and the answers. ``void`` spoils all of it where it is set."""

    cells: Mapping[CellKey, Cell]
    failures: Mapping[CellKey, CellFailedError]
    answers: Mapping[str, Answer]
    rounds: int
    void: Void | None = None

    def answer(self, question: Question) -> Answer:
        """Raises CellFailedError where one of its cells could not be measured."""
        for key in sorted(question.cells):
            if key in self.failures:
                raise self.failures[key]
        return self.answers[question.claim]


@dataclass
class PanelRunner:
    """One panel. What the ledger already has of it is taken over, so that a killed run goes on where it stopped."""

    bench: Bench
    panel: Panel
    workload: Workload
    questions: Sequence[Question]
    limit_s: float | None = None
    _generations: dict[CellKey, list[Generation]] = field(default_factory=dict)
    _failures: dict[CellKey, CellFailedError] = field(default_factory=dict)
    _round_s: list[float] = field(default_factory=list)
    _began_s: float = field(default_factory=time.monotonic)

    def measure(self) -> Measured:
        """Round after round; after each one the open questions are decided, and arms that none needs drop out."""
        self._take_over()
        script = Script(self.workload, self.bench, self._generations)
        with ExitStack() as stack:
            station: Station | None = None
            rounds = 0
            while True:
                answers = self._answers(rounds)
                still = [q for q in self.questions if q.claim in answers and answers[q.claim].open]
                if not still or self._is_over(rounds):
                    break
                station = station or stack.enter_context(self.bench.station())
                self._round(rounds, still, script, station)
                rounds += 1
        cells = self._cells()
        return Measured(cells, self._failures, answers, rounds, clock_drift(list(cells.values())))

    def _take_over(self) -> None:
        finished = self.bench.ledger.cells()
        for key in self.panel.cells:
            self._generations[key] = list(self.bench.ledger.generations(key))
            failure = finished[key]["failure"] if key in finished else None
            if failure:
                self._failures[key] = CellFailedError.kept(key, failure)

    def _is_over(self, rounds: int) -> bool:
        """The device time is spent, or the prompts of a record are all measured and voided again and again."""
        spent = self.limit_s is not None and time.monotonic() - self._began_s >= self.limit_s
        most = max((self.panel.rounds_for(q.most_pairs) for q in self.questions), default=0)
        return spent or rounds >= 2 * most + 1

    def _answers(self, rounds: int) -> dict[str, Answer]:
        cells = self._cells()
        return {q.claim: q.answer(cells, rounds) for q in self.questions if not q.cells & self._failures.keys()}

    def _cells(self) -> dict[CellKey, Cell]:
        return {key: self._cell(key) for key in self.panel.cells if key not in self._failures}

    def _cell(self, key: CellKey) -> Cell:
        arm = self.bench.arm(key.arm)
        cell = Cell(key, tuple(g for g in self._generations[key] if g.block >= 0))
        idle = drafter_idle(cell, arm)
        voids = synthetic_voids(self.bench.servers_of(key.build), arm)
        return replace(cell, voids=(*voids, *((idle,) if idle else ())))

    def _round(self, number: int, still: Sequence[Question], script: Script, station: Station) -> None:
        began_s = time.monotonic()
        needed = {key for question in still for key in question.cells}
        for block in self.panel.round(number):
            for key in block.cells:
                if key in needed and key not in self._failures:
                    self._visit(block, key, script, station, self._told(number, still))
        self._round_s.append(time.monotonic() - began_s)

    def _visit(self, block: Block, key: CellKey, script: Script, station: Station, told: str) -> None:
        """One arm on one block, on a fresh server, unless the ledger has it already."""
        have = {(g.prompt_id, g.block) for g in self._generations[key]}
        missing = [prompt for prompt in block.prompts if (prompt.id, block.number) not in have]
        if not missing:
            return
        try:
            script.prepare(self.panel.prompts[-1])
            self._ask(block, key, missing, script, station, told)
        except (ServerError, ClientError) as error:
            failure = failure_of(key, self.bench.arm(key.arm), error)
            self._failures[key] = failure
            self.bench.ledger.finish_cell(key, None, plain(vars(failure)))

    def _ask(
        self, block: Block, key: CellKey, prompts: Sequence[Prompt], script: Script, station: Station, told: str
    ) -> None:
        arm, servers = self.bench.arm(key.arm), self.bench.servers_of(key.build)
        refuse_unknown_flags(servers, arm, key.mode)
        self.bench.progress(f"{told}: starting {key.arm}")
        station.ready()
        with servers.running(arm, key.mode) as server, Client(server, self.bench.stall_timeout_s) as client:
            station.watch(server)
            client.stream(
                _WARM_UP, {**self.workload.request, "n_predict": self.bench.warm_up_tokens}, prompt_id="warm-up"
            )
            for number, prompt in enumerate(prompts, start=1):
                text = script.text(prompt, key, block.number)
                generation = client.generate(
                    text, self.workload.request, prompt_id=prompt.id, cell=key, block=block.number,
                    ordinal=number - 1,
                )  # fmt: skip
                self._keep(generation, station)
                self.bench.progress(f"{told}: {key.arm}, {number} of {len(prompts)}")

    def _keep(self, generation: Generation, station: Station) -> None:
        warm = self.workload.warm or self.workload.conversation
        voids = generation_voids(generation, forced_tokens=self.workload.forced_tokens, warm=warm)
        kept = station.seen(replace(generation, voids=(*generation.voids, *voids)))
        self.bench.ledger.append(kept)
        self._generations[generation.cell].append(kept)

    def _told(self, number: int, still: Sequence[Question]) -> str:
        """What is measured, how far it is, what is still needed and when it will end at the latest."""
        most = max(self.panel.rounds_for(question.most_pairs) for question in still)
        per_round_s = sum(self._round_s) / len(self._round_s) if self._round_s else None
        left_s = per_round_s * max(1, most - number) if per_round_s is not None else None
        return progress_words(self.workload.name, number + 1, most, left_s, (len(still), len(self.questions)))


def progress_words(workload: str, number: int, most: int, left_s: float | None, claims: tuple[int, int]) -> str:
    """What matters most first: a terminal may have room for no more. ``claims``: those that are open, and all."""
    left = f", at most {lasting(left_s)}" if left_s is not None else ""
    return f"{workload}: round {number} of at most {most}{left}, {claims[0]} of {counted(claims[1], 'claim')} open"
