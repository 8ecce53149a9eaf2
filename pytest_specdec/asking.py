"""What the fixtures ``cells`` and ``server`` hand out: only what the claim declared, and only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TypeVar

from pytest_specdec.errors import ServerError, SuiteError
from pytest_specdec.judge import Judge
from pytest_specdec.records import (
    BASE_BUILD,
    NEW_BUILD,
    Cell,
    CellKey,
    Claim,
    FigureKind,
    Finding,
    MemoryUse,
    Mode,
    Reason,
    Status,
)
from pytest_specdec.server.client import Client
from pytest_specdec.session import Run

__all__ = ["CellMap", "LiveArm", "MemoryMap"]

_Played = TypeVar("_Played")


class CellMap(Mapping[str, Cell]):
    """The declared cells of one claim by arm, measured when they are first asked for."""

    def __init__(
        self, claim: Claim, get: Callable[[CellKey], Cell], workload: str | None = None, build: str = NEW_BUILD
    ) -> None:
        self._claim = claim
        self._get = get
        self._workload = workload
        self._build = build

    def on(self, workload: str) -> CellMap:
        """The cells of one of several workloads."""
        if workload not in self._claim.on:
            raise _undeclared(self._claim, f"cells on {workload!r}", f"on={list(self._claim.on)}")
        return CellMap(self._claim, self._get, workload, self._build)

    @property
    def base_build(self) -> CellMap:
        """The same cells of the build that this one is compared with, for a claim ``across_builds``."""
        if not self._claim.across_builds:
            raise _undeclared(self._claim, "cells of the base build", "across_builds=False")
        return CellMap(self._claim, self._get, self._workload, BASE_BUILD)

    def __getitem__(self, arm: str) -> Cell:
        key = self._keys().get(arm)
        if key is None:
            raise _undeclared(self._claim, f"a cell of {arm!r}", f"the arms {list(self._keys())}")
        return self._get(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys())

    def __len__(self) -> int:
        return len(self._keys())

    def _keys(self) -> dict[str, CellKey]:
        workload = self._workload
        if workload is None:
            if len(self._claim.on) != 1:
                raise _undeclared(self._claim, "a cell without its workload", f"on={list(self._claim.on)}")
            workload = self._claim.on[0]
        return {key.arm: key for key in self._claim.cells if key.workload == workload and key.build == self._build}


class MemoryMap:
    """What the servers of one claim's arms take of the device, one figure per arm, measured with its cell."""

    def __init__(self, cells: CellMap, judge: Judge) -> None:
        self._cells = cells
        self._judge = judge

    def __getitem__(self, arm: str) -> MemoryUse:
        """Not judged where nobody can tell, void where others were on the device."""
        cell = self._cells[arm]
        self._judge.valid(cell, FigureKind.MEMORY)
        if cell.memory is None:
            self._judge.judge(
                Finding(
                    Status.NOT_JUDGED, Reason.NOT_CONTROLLED, "nothing", f"the memory of {arm}",
                    "the server is somebody else's, or its device does not tell", "use --llama-server",
                )
            )  # fmt: skip
        assert cell.memory is not None
        return cell.memory

    def extra(self, arm: str, over: str) -> float:
        """What the server of ``arm`` takes at its peak beyond that of ``over``, in MiB."""
        return self[arm].peak_mib - self[over].peak_mib


class LiveArm:
    """Live servers of one claim's arms, outside panels, stopped at the test's end."""

    def __init__(self, claim: Claim, run: Run, judge: Judge, stack: ExitStack) -> None:
        self._claim = claim
        self._run = run
        self._judge = judge
        self._stack = stack

    def remembered(self, arm: str, play: Callable[[Client], _Played]) -> _Played:
        """What ``play`` got from a fresh server of ``arm``, once per run for all repetitions of this claim.

        For the side that does not change from one drafter to the next.
        """
        key = (self._claim.id.partition("[")[0], arm, tuple(sorted(self._claim.server_flags.items())))
        if key not in self._run.played:
            self._run.played[key] = play(self.start(arm))
        found: _Played = self._run.played[key]
        return found

    def command(self, arm: str) -> str:
        """The command line of such a server, for a person to start one by hand."""
        return self._run.servers.by_hand(self._run.arm(arm), self._claim.mode, self._claim.server_flags)

    def start(self, arm: str | None = None) -> Client:
        """A client of a fresh server of ``arm``, the claim's first by default."""
        name = arm or self._claim.arms[0]
        if name not in (*self._claim.arms, self._claim.over):
            raise _undeclared(self._claim, f"a server of {name!r}", f"the arms {list(self._claim.arms)}")
        self._judge.measured_something = True
        if self._claim.mode is Mode.SPEED:
            self._stack.enter_context(self._run.ahead.paused())
        opened = self._run.servers.running(self._run.arm(name), self._claim.mode, self._claim.server_flags)
        try:
            live = self._stack.enter_context(opened)
        except ServerError as error:
            error.arm = name
            raise
        return self._stack.enter_context(Client(live, self._run.profile.stall_timeout_s))


def _undeclared(claim: Claim, asked: str, declared: str) -> SuiteError:
    return SuiteError(
        f"asking for {asked} in the claim {claim.id}",
        f"it declares {declared}",
        "declare in the marker whatever the test uses, so that it can be planned",
    )
