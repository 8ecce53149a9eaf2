"""Who else uses the device, and whether a server that stopped has let it go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.device.processes import describe, is_alive, start_mark
from pytest_specdec.device.waiting import Waiting
from pytest_specdec.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pytest_specdec.device.reader import DeviceReader
    from pytest_specdec.device.samples import ComputeProcess

__all__ = ["Release", "ServerProcess", "Sharing", "foreign", "processes_of", "wait_for_release", "wait_until_alone"]

_POLL_S = 0.5
_RELEASE_POLL_S = 0.1
# Contexts of other processes and the driver's own bookkeeping move the total by a few MiB; a model is hundreds.
RELEASE_TOLERANCE_MIB = 64.0


@dataclass(frozen=True, slots=True)
class Sharing:
    """Whether the device is ours alone. ``known`` is False for a device that does not list its processes.

    With ``foreign`` processes, figures of speed and memory are void.
    """

    foreign: tuple[ComputeProcess, ...]
    known: bool
    waited_s: float

    @property
    def names(self) -> tuple[str, ...]:
        """Who else computes on the device, for people."""
        return _names(self.foreign)


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A process of a server, told from a later one with its id by ``mark``."""

    pid: int
    mark: str

    @property
    def is_alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return is_alive(self.pid, self.mark)


@dataclass(frozen=True, slots=True)
class Release:
    """Whether a stopped server has let its memory go.

    ``kept_mib`` is what is used beyond the amount before the server, None where that is unknown or within tolerance.
    """

    alive: tuple[int, ...]
    kept_mib: float | None
    holders: tuple[ComputeProcess, ...]
    waited_s: float

    @property
    def done(self) -> bool:
        """Whether the next server may start."""
        return not self.alive and self.kept_mib is None

    def check(self) -> None:
        """Raise DeviceError, with the processes that hold on, unless the device is free."""
        if self.done:
            return
        why = [f"still running: {describe(pid)}" for pid in self.alive]
        if self.kept_mib is not None:
            holders = (
                ", ".join(_names(self.holders)) or "no process that the driver lists (another container, or the driver)"
            )
            why.append(f"{self.kept_mib:.0f} MiB more in use than before the server, held by {holders}")
        raise DeviceError(
            tried=f"wait {self.waited_s:.0f} s for a stopped server to leave the device",
            why="\n".join(why),
            remedy="end what holds the device, then measure again",
        )


def foreign(processes: Iterable[ComputeProcess], ours: Collection[int]) -> tuple[ComputeProcess, ...]:
    """Those that are not ours."""
    return tuple(process for process in processes if process.pid not in ours)


def wait_until_alone(
    reader: DeviceReader, ours: Collection[int], *, limit_s: float, waiting: Waiting | None = None
) -> Sharing:
    """Wait until only the processes ``ours`` compute on the device, at most for ``limit_s``. Raises DeviceError.

    Before a server starts ``ours`` is empty: then it also holds in a container where the driver gives the process ids
    of the host.
    """
    found: list[tuple[ComputeProcess, ...] | None] = []

    def step(waited_s: float) -> str | None:
        found[:] = [reader.processes()]
        others = foreign(found[0] or (), ours)
        if not others:
            return None
        users = ", ".join(_names(others))
        return f"waiting for the device, {waited_s:.0f} s of at most {limit_s:.0f} s: it is used by {users}"

    waited = (waiting or Waiting()).until(step, limit_s=limit_s, every_s=_POLL_S)
    return Sharing(foreign(found[0] or (), ours), found[0] is not None, waited.seconds)


def processes_of(pid: int) -> tuple[ServerProcess, ...]:
    """The process and all its descendants, to be remembered while they run: a launcher's server is its child."""
    import psutil

    try:
        pids = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return ()
    marks = {each: start_mark(each) for each in pids}
    return tuple(ServerProcess(each, mark) for each, mark in marks.items() if mark is not None)


def wait_for_release(
    reader: DeviceReader,
    server: Sequence[ServerProcess],
    before_mib: float | None,
    *,
    limit_s: float,
    tolerance_mib: float = RELEASE_TOLERANCE_MIB,
    waiting: Waiting | None = None,
) -> Release:
    """Wait until the stopped server's processes are gone and the device's memory is what it was ``before_mib``.

    ``before_mib`` is the memory in use before the server started; None where that says nothing, as on a CPU.
    At the limit it returns what is still held, and ``check`` raises it. Raises DeviceError.
    """
    state: list[Release] = []

    def step(waited_s: float) -> str | None:
        state[:] = [_release_now(reader, server, before_mib, tolerance_mib, waited_s)]
        if state[0].done:
            return None
        kept = f", {state[0].kept_mib:.0f} MiB not released" if state[0].kept_mib is not None else ""
        return f"waiting for the stopped server, {limit_s - waited_s:.0f} s left: {len(state[0].alive)} running{kept}"

    (waiting or Waiting()).until(step, limit_s=limit_s, every_s=_RELEASE_POLL_S)
    return state[0]


def _release_now(
    reader: DeviceReader,
    server: Sequence[ServerProcess],
    before_mib: float | None,
    tolerance_mib: float,
    waited_s: float,
) -> Release:
    alive = tuple(process.pid for process in server if process.is_alive)
    if before_mib is None:
        return Release(alive, None, (), waited_s)
    sample = reader.sample()
    kept_mib = None if sample.memory_used_mib is None else sample.memory_used_mib - before_mib
    if kept_mib is None or kept_mib <= tolerance_mib:
        return Release(alive, None, (), waited_s)
    return Release(alive, kept_mib, sample.processes or (), waited_s)


def _names(processes: Iterable[ComputeProcess]) -> tuple[str, ...]:
    def name(process: ComputeProcess) -> str:
        memory = "" if process.memory_mib is None else f" with {process.memory_mib:.0f} MiB"
        return describe(process.pid) + memory

    return tuple(name(process) for process in processes)
