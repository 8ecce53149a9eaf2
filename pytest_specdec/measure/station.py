"""The device while a speed panel is measured: held, watched, and cool before each server starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_specdec.device.climate import cool_down
from pytest_specdec.device.isolation import ServerProcess, processes_of, wait_for_release, wait_until_alone
from pytest_specdec.device.lock import DeviceLocks
from pytest_specdec.device.reader import DeviceReader, open_device
from pytest_specdec.device.telemetry import Telemetry
from pytest_specdec.device.waiting import Waiting
from pytest_specdec.measure.guards import device_shared, hot_start, throttled
from pytest_specdec.records import Generation, Void
from pytest_specdec.server.process import LaunchedServer, LiveServer

__all__ = ["Limits", "Station", "occupied"]

_NS_PER_S = 1_000_000_000
_WINDOW_NS = _NS_PER_S  # over less than half a second of CPU time nobody can tell who used it


@dataclass(frozen=True, slots=True)
class Limits:
    """What the device may be like. ``start_c``: at a server's start, None where the profile has no limit.

    ``foreign_share``: of the cores that others may take. ``cooldown_s`` bounds each wait.
    """

    start_c: float | None = None
    foreign_share: float = 0.05
    cooldown_s: float = 600.0


class Station:
    """Where servers of a panel run. Ask ``ready`` before one starts and ``voids`` after each generation."""

    def __init__(self, reader: DeviceReader, telemetry: Telemetry, limits: Limits, waiting: Waiting) -> None:
        self._reader = reader
        self._telemetry = telemetry
        self._limits = limits
        self._waiting = waiting
        self._of_the_start: tuple[Void, ...] = ()
        self._since_ns = 0
        self._before_mib: float | None = None
        self._server: tuple[ServerProcess, ...] = ()

    def ready(self) -> None:
        """Wait until the device is alone and cool; what is still wrong then voids what the next server measures.

        Raises DeviceError.
        """
        limit_s = self._limits.cooldown_s
        sharing = wait_until_alone(self._reader, (), limit_s=limit_s, waiting=self._waiting)
        voids = [device_shared(sharing.names)]
        if self._limits.start_c is not None:
            climate = cool_down(self._reader, self._limits.start_c, limit_s=limit_s, waiting=self._waiting)
            voids += [hot_start(climate.temperature_c, self._limits.start_c), throttled(climate.slowdowns)]
        self._of_the_start = tuple(void for void in voids if void is not None)
        sample = self._telemetry.sample_now(with_processes=True)
        # On a CPU others take and give memory all the time: only a list of processes makes the amount meaningful.
        self._before_mib = sample.memory_used_mib if sharing.known else None

    def watch(self, server: LiveServer) -> None:
        """``server`` runs here from now on."""
        self._server = processes_of(server.pid) if isinstance(server, LaunchedServer) else ()
        self._telemetry.watch(process.pid for process in self._server)
        self._since_ns = self._telemetry.sample_now().at_ns

    def released(self) -> None:
        """Wait until the server that has stopped is off the device. Raises DeviceError when it is not."""
        self._telemetry.watch(())
        limit_s = self._limits.cooldown_s
        wait_for_release(self._reader, self._server, self._before_mib, limit_s=limit_s, waiting=self._waiting).check()

    def voids(self, generation: Generation) -> tuple[Void, ...]:
        """What the device did while ``generation`` ran, and was like when its server started. Raises DeviceError."""
        begin_ns = min(generation.started_ns, max(self._since_ns, generation.ended_ns - _WINDOW_NS))
        seen = self._telemetry.summary(begin_ns, generation.ended_ns)
        share = seen.foreign_cpu_share
        too_much = share is not None and share > self._limits.foreign_share
        found = [throttled(seen.slowdowns), device_shared((), share if too_much else None)]
        return (*self._of_the_start, *(void for void in found if void is not None))


@contextmanager
def occupied(
    device: str, run_id: str, telemetry_path: Path, limits: Limits, progress: Callable[[str], None]
) -> Iterator[Station]:
    """Hold the device and watch it. Raises DeviceError when it cannot be had, LedgerError when nothing can be kept."""
    waiting = Waiting(progress=progress)
    with DeviceLocks(run_id=run_id, waiting=waiting).hold(device):
        reader = open_device(device if device == "cpu" else None)
        try:
            with Telemetry(reader, telemetry_path) as telemetry:
                yield Station(reader, telemetry, limits, waiting)
        finally:
            reader.close()
