"""The device while a speed panel is measured: held, watched, alone and cool before each server starts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_specdec.device.climate import pause_after_throttle
from pytest_specdec.device.isolation import Sharing, foreign, wait_until_alone
from pytest_specdec.device.samples import ComputeProcess, Sample
from pytest_specdec.device.telemetry import Telemetry
from pytest_specdec.measure.guards import device_shared, hot_start, throttled
from pytest_specdec.measure.own_device import OwnDevice, processes_of_server
from pytest_specdec.records import Generation, Reason, Void
from pytest_specdec.server.process import LiveServer

__all__ = ["Limits", "Station", "occupied"]

_NS_PER_S = 1_000_000_000
_WINDOW_NS = _NS_PER_S  # over less than half a second of CPU time nobody can tell who used it
_SHORTER = 0.1  # a device that stayed hot or shared once will again: the whole wait at each start would take hours


@dataclass(frozen=True, slots=True)
class Limits:
    """What the device may be like. ``start_c``: at a server's start, None where the profile has no limit.

    ``foreign_share``: of the cores that others may take. ``wait_s`` bounds each wait before a start. ``pause_s`` is
    the least wait after a slowdown. ``attached``: the servers are somebody else's, so nobody knows whose a process is.
    """

    start_c: float | None = None
    foreign_share: float = 0.05
    wait_s: float = 300.0
    pause_s: float = 30.0
    attached: bool = False


class Station:
    """Where servers of a panel run: ``ready`` before one starts, ``watch`` when it runs, ``seen`` for each reply."""

    def __init__(self, device: OwnDevice, telemetry: Telemetry, limits: Limits) -> None:
        self._device = device
        self._reader = device.reader
        self._telemetry = telemetry
        self._limits = limits
        self._wait_s = limits.wait_s
        self._of_the_start: tuple[Void, ...] = ()
        self._was_throttled = False
        self._since_ns = 0
        self._ours: frozenset[int] | None = None

    def ready(self) -> None:
        """Wait until the device is alone and cool; what is still wrong then voids what the next server measures.

        Raises DeviceError.
        """
        self._telemetry.watch(())
        voids = [self._shared(), self._hot()]
        self._of_the_start = tuple(void for void in voids if void is not None)
        self._wait_s = self._limits.wait_s * (_SHORTER if self._of_the_start else 1.0)

    def watch(self, server: LiveServer) -> None:
        """``server`` runs here from now on."""
        pids = frozenset(process.pid for process in processes_of_server(server))
        self._telemetry.watch(pids)
        sample = self._telemetry.sample_now(with_processes=True)
        self._ours = None if self._limits.attached else _ours(sample, pids)
        self._since_ns = sample.at_ns

    def seen(self, generation: Generation) -> Generation:
        """``generation`` with what the device said while it ran, and what that and the server's start void.

        Raises DeviceError when the device could not be read.
        """
        now = self._telemetry.sample_now(with_processes=True)
        whole = self._telemetry.summary(generation.started_ns, now.at_ns)
        begin_ns = min(generation.started_ns, max(self._since_ns, generation.ended_ns - _WINDOW_NS))
        share = self._telemetry.summary(begin_ns, generation.ended_ns).foreign_cpu_share
        too_much = share is not None and share > self._limits.foreign_share
        found = [
            throttled(whole.slowdowns),
            device_shared(self._strangers(whole.processes)),
            device_shared((), share if too_much else None),
        ]
        meanwhile = {void.reason: void for void in found if void is not None}
        voids = {**{void.reason: void for void in self._of_the_start}, **meanwhile}.values()  # each reason once
        self._was_throttled = self._was_throttled or any(void.reason is Reason.THROTTLED for void in voids)
        told = {**replace(whole, foreign_cpu_share=share).to_json(), "key": self._device.identity.key}
        return replace(generation, voids=(*generation.voids, *voids), device=told)

    def _shared(self) -> Void | None:
        if self._limits.attached:
            return None
        sharing = wait_until_alone(self._reader, (), limit_s=self._wait_s, waiting=self._device.waiting)
        return device_shared(sharing.names)

    def _hot(self) -> Void | None:
        target_c = math.inf if self._limits.start_c is None else self._limits.start_c
        climate = pause_after_throttle(
            self._reader, target_c, pause_s=self._limits.pause_s if self._was_throttled else 0.0,
            limit_s=self._wait_s, waiting=self._device.waiting,
        )  # fmt: skip
        self._was_throttled = False
        return hot_start(climate.temperature_c, target_c) or throttled(climate.slowdowns)

    def _strangers(self, processes: tuple[ComputeProcess, ...] | None) -> tuple[str, ...]:
        if self._ours is None or not processes:
            return ()
        return Sharing(foreign(processes, self._ours), known=True, waited_s=0.0).names


def _ours(sample: Sample, pids: frozenset[int]) -> frozenset[int]:
    """The processes that are no strangers.

    In a container an old driver gives the process ids of the host: then what is there now is our server, since nobody
    was there before it.
    """
    listed = frozenset(process.pid for process in sample.processes or ())
    return pids if listed & pids else pids | listed


@contextmanager
def occupied(device: OwnDevice, telemetry_path: Path, limits: Limits) -> Iterator[Station]:
    """Hold the device and watch it. Raises DeviceError when it cannot be had, LedgerError when nothing can be kept."""
    with device.held(), Telemetry(device.reader, telemetry_path) as telemetry:
        yield Station(device, telemetry, limits)
