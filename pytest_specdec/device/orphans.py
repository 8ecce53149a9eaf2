"""Servers that an earlier run of ours left behind: found by the mark that we put in their environment.

A process is ended only when its mark says that it is ours, names a run whose process has ended, and was written in
this very process namespace. Nothing else is ever touched.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec.device.processes import is_alive, shortened, start_mark
from pytest_specdec.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psutil

__all__ = ["RUN_ID_VARIABLE", "Orphan", "RunMark", "end_orphans", "find_orphans", "run_environment"]

RUN_ID_VARIABLE = "SPECDEC_RUN_ID"
_ASK_S = 5.0
_KILL_S = 5.0


@dataclass(frozen=True, slots=True)
class RunMark:
    """Which run started a server: its id, and its process with the mark of when that started."""

    run_id: str
    owner_pid: int
    owner_mark: str

    def __str__(self) -> str:
        return f"{self.run_id}:{self.owner_pid}:{self.owner_mark}"

    @classmethod
    def parse(cls, text: str) -> RunMark | None:
        """The inverse of ``str``; None for anything else."""
        run_id, _, rest = text.partition(":")
        pid, _, mark = rest.partition(":")
        return cls(run_id, int(pid), mark) if run_id and mark and pid.isdigit() else None

    @property
    def run_lives(self) -> bool:
        """Whether the process of that run still runs."""
        return is_alive(self.owner_pid, self.owner_mark)


@dataclass(frozen=True, slots=True)
class Orphan:
    """A process that outlived its run; ``mark`` tells it from a later one with its id."""

    pid: int
    mark: str
    run_id: str
    command: str

    def __str__(self) -> str:
        return f"pid {self.pid} of run {self.run_id} ({self.command})"


def run_environment(run_id: str) -> dict[str, str]:
    """What to add to the environment of every server that this process starts. ``run_id`` holds no colon."""
    pid = os.getpid()
    return {RUN_ID_VARIABLE: str(RunMark(run_id, pid, start_mark(pid) or "unknown"))}


def find_orphans() -> tuple[Orphan, ...]:
    """The processes of this user that outlived the run of ours that started them."""
    import psutil

    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    others = (process for process in psutil.process_iter() if process.pid not in ours)
    return tuple(orphan for orphan in map(_as_orphan, others) if orphan is not None)


def end_orphans(orphans: Sequence[Orphan]) -> None:
    """End what ``find_orphans`` found, by process id, politely first. Raises DeviceError that names what does not end.

    A process that ended meanwhile, or whose id has passed to another, is left alone.
    """
    import psutil

    alive = [process for process in map(_process_of, orphans) if process is not None]
    for ask, patience_s in ((psutil.Process.terminate, _ASK_S), (psutil.Process.kill, _KILL_S)):
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                ask(process)
        alive = psutil.wait_procs(alive, timeout=patience_s)[1]
    if alive:
        pids = {process.pid for process in alive}
        raise DeviceError(
            tried="end the servers that an earlier run left behind",
            why="still running after SIGKILL: " + ", ".join(str(orphan) for orphan in orphans if orphan.pid in pids),
            remedy="they hang in the driver: look at the kernel's log, or restart the machine",
        )


def _process_of(orphan: Orphan) -> psutil.Process | None:
    import psutil

    try:
        process = psutil.Process(orphan.pid)  # from here on psutil itself sees to it that the id has not passed on
    except psutil.NoSuchProcess:
        return None
    return process if is_alive(orphan.pid, orphan.mark) else None


def _as_orphan(process: psutil.Process) -> Orphan | None:
    import psutil

    try:
        if hasattr(os, "getuid") and process.uids().real != os.getuid():
            return None
        run = RunMark.parse(process.environ().get(RUN_ID_VARIABLE, ""))
        mark = start_mark(process.pid)
        if run is None or mark is None or run.run_lives or not _same_namespace(process.pid):
            return None
        return Orphan(process.pid, mark, run.run_id, shortened(" ".join(process.cmdline()) or process.name()))
    except (psutil.Error, OSError):
        return None  # ended meanwhile, or not ours to read


def _same_namespace(pid: int) -> bool:
    """Whether process ids mean the same to that process: a container counts its own."""
    if not Path("/proc/self/ns").is_dir():
        return True
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink() == Path("/proc/self/ns/pid").readlink()
    except OSError:
        return False
