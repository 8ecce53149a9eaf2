"""Measures each cell once, keeps it or its failure, and hands it out as often as claims ask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from filelock import Timeout

from pytest_specdec.errors import ClientError, LedgerError, ServerError, ServerExitedError
from pytest_specdec.measure.failures import CellFailedError, failure_of
from pytest_specdec.measure.guards import synthetic_acceptance
from pytest_specdec.measure.ledger import Ledger, plain, void_of
from pytest_specdec.measure.memory import MemoryProbe, probing
from pytest_specdec.measure.own_device import OwnDevice
from pytest_specdec.measure.servers import Servers
from pytest_specdec.records import (
    Arm,
    Cell,
    CellKey,
    FigureKind,
    Generation,
    Json,
    MemoryUse,
    Mode,
    Void,
    Workload,
)
from pytest_specdec.server.client import Client
from pytest_specdec.server.process import LiveServer

__all__ = ["Cells", "refuse_unknown_flags", "synthetic_voids"]

_LOOK_S = 0.2


@dataclass
class Cells:
    """The cells of one run. ``progress`` is told what happens, for the screen, by the thread that made this.

    Several threads, and processes, may ask for cells; each cell is measured by one of them.
    """

    servers_of: Callable[[str], Servers]  # by the build's role
    ledger: Ledger
    workload: Callable[[str], Workload]
    arm: Callable[[str], Arm]
    stall_timeout_s: float
    progress: Callable[[str], None]
    device: OwnDevice | None = None
    meanwhile: Callable[[], bool] = lambda: False  # what the owner does while another thread has the cell it wants

    def __post_init__(self) -> None:
        self._known: dict[CellKey, Cell | CellFailedError] = {}
        self._begun: set[CellKey] = set()
        self._told: dict[CellKey, str] = {}
        self._owner = threading.get_ident()
        self._abandoned = False
        self._clients: WeakSet[Client] = WeakSet()

    def get(self, key: CellKey) -> Cell:
        """The cell, measured now if nobody has. Raises CellFailedError, the same again for every later caller."""
        if key not in self._known:
            self._begun.add(key)
            with self._turn(key):
                if key not in self._known:
                    finished = self.ledger.cells().get(key)
                    self._known[key] = self._load(key, finished) if finished else self._measure(key)
        found = self._known[key]
        if isinstance(found, CellFailedError):
            raise found
        return found

    def is_begun(self, key: CellKey) -> bool:
        """Whether somebody in this process has asked for the cell."""
        return key in self._begun

    def abandon(self) -> None:
        """Hang up on the servers, which are ended now: what fails from here on says nothing about them."""
        self._abandoned = True
        for client in list(self._clients):
            client.hang_up()

    @contextmanager
    def _turn(self, key: CellKey) -> Iterator[None]:
        """Wait until nobody else measures this cell, and keep others from it."""
        lock = self.ledger.locked(str(key))
        while not lock.is_locked:
            try:
                lock.acquire(timeout=_LOOK_S)
            except Timeout:
                if self._is_owner and key not in self._known and self.meanwhile():
                    continue
                self._show(self._told.get(key, f"waiting for another worker that measures {key}"))
        try:
            yield
        finally:
            lock.release()

    def _tell(self, key: CellKey, words: str) -> None:
        self._told[key] = words  # for whoever waits for it
        self._show(words)

    def _show(self, words: str) -> None:
        if self._is_owner:
            self.progress(words)

    @property
    def _is_owner(self) -> bool:
        return threading.get_ident() == self._owner

    def known(self, key: CellKey) -> Cell | None:
        """The cell where this process has measured or loaded it already; nothing is measured for the asking."""
        found = self._known.get(key)
        return found if isinstance(found, Cell) else None

    def _load(self, key: CellKey, row: Mapping[str, Any]) -> Cell | CellFailedError:
        if row["failure"]:
            return CellFailedError.kept(key, row["failure"])
        workload = self.workload(key.workload)
        # A killed run may have left a first part of this cell; what counts are the generations of its last attempt.
        generations = self.ledger.generations(key)[-len(workload.prompts) :]
        if [g.prompt_id for g in generations] != [prompt.id for prompt in workload.prompts]:
            raise LedgerError(
                f"reading the cell {key} from {self.ledger.directory}",
                f"its {len(generations)} generations are not those of the workload's {len(workload.prompts)} prompts",
                "the run directory was changed or damaged: measure anew",
            )
        memory = MemoryUse(**row["memory"]) if row.get("memory") else None
        voids = (*synthetic_voids(self.servers_of(key.build), self.arm(key.arm)), *map(void_of, row.get("voids", ())))
        return Cell(key, generations, row["log"], voids, memory)

    def _measure(self, key: CellKey) -> Cell | CellFailedError:
        arm = self.arm(key.arm)
        self._tell(key, f"{key}: starting")
        try:
            cell = self._measured(key, arm)
        except (ServerError, ClientError) as error:
            if self._abandoned:
                raise
            failure = failure_of(key, arm, error)
            self.ledger.finish_cell(key, None, plain(vars(failure)))
            return failure
        of_memory = [void for void in cell.voids if FigureKind.MEMORY in void.figures]
        self.ledger.finish_cell(key, cell.log, memory=cell.memory, voids=of_memory)
        return cell

    def _measured(self, key: CellKey, arm: Arm) -> Cell:
        workload = self.workload(key.workload)
        servers = self.servers_of(key.build)
        refuse_unknown_flags(servers, arm, key.mode)
        with probing(self.device) as probe, servers.running(arm, key.mode) as server:
            probe.loaded(server)
            with Client(server, self.stall_timeout_s) as client:
                self._clients.add(client)
                generations = self._generations(key, arm, workload, client, probe)
            log = _log_of(server)
        voids = (*synthetic_voids(servers, arm), *((probe.void,) if probe.void else ()))
        return Cell(key, generations, log, voids, probe.use)

    def _generations(
        self, key: CellKey, arm: Arm, workload: Workload, client: Client, probe: MemoryProbe
    ) -> tuple[Generation, ...]:
        # Only without a drafter are the log probabilities of every token to be had.
        request: Mapping[str, Json] = workload.request if arm.drafted else {**workload.request, "n_probs": 2}
        generations = []
        for ordinal, prompt in enumerate(workload.prompts):
            asked = {**request, **prompt.request}
            generation = client.generate(prompt.text, asked, prompt_id=prompt.id, cell=key, ordinal=ordinal)
            probe.look()
            self.ledger.append(generation)
            generations.append(generation)
            self._tell(key, f"{key}: {ordinal + 1} of {len(workload.prompts)}")
        return tuple(generations)


def refuse_unknown_flags(servers: Servers, arm: Arm, mode: Mode) -> None:
    """Raises ServerExitedError when the build's ``--help`` does not list what the arm needs."""
    unknown = servers.unknown_flags(arm, mode)
    if unknown:
        raise ServerExitedError(
            f"starting the arm {arm.name} on {servers.identity.label}",
            f"the build's --help does not list {', '.join(unknown)}",
            "use a build that has them, or a profile without them",
        )


def synthetic_voids(servers: Servers, arm: Arm) -> tuple[Void, ...]:
    """What a server that accepts drafts whatever the target says is good for."""
    void = synthetic_acceptance(servers.flags_of(arm))
    return (void,) if void else ()


def _log_of(server: LiveServer) -> str | None:
    return server.log() or None
