"""What a server takes of its device's memory: when it is loaded, and at most while it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_specdec.device.isolation import Sharing, foreign
from pytest_specdec.device.reader import DeviceReader, NoNvidia
from pytest_specdec.device.samples import Sample
from pytest_specdec.measure.guards import device_shared
from pytest_specdec.measure.own_device import OwnDevice, processes_of_server
from pytest_specdec.records import MemoryUse, Void
from pytest_specdec.server.process import LiveServer

__all__ = ["MemoryProbe", "probing"]

_MIB = 1024.0 * 1024.0


class MemoryProbe:
    """Made before the server starts; ``loaded`` when it is ready, ``look`` after each request.

    On a GPU it is the memory of the server's processes, or where the driver does not tell that (in a container, on
    Windows) what the whole device has more than before. On a CPU it is the resident memory of the server's processes.
    """

    def __init__(self, reader: DeviceReader) -> None:
        self._reader = reader
        self._is_gpu = reader.identity.is_gpu
        self._before = reader.sample() if self._is_gpu else None
        self._pids: Sequence[int] = ()
        self._loaded_mib: float | None = None
        self._most_mib: float | None = None

    def loaded(self, server: LiveServer) -> None:
        """``server`` is ready. For one that somebody else runs nothing is known."""
        self._pids = [process.pid for process in processes_of_server(server)]
        self._loaded_mib = self._most_mib = self._now_mib()

    def look(self) -> None:
        """The peak may have been now."""
        now_mib = self._now_mib()
        if now_mib is not None:
            self._most_mib = max(now_mib, self._most_mib or 0.0)

    @property
    def use(self) -> MemoryUse | None:
        """What was seen; None where it cannot be."""
        if self._loaded_mib is None or self._most_mib is None:
            return None
        return MemoryUse(self._loaded_mib, self._most_mib)

    @property
    def void(self) -> Void | None:
        """Others were on the GPU, so what it had more may be theirs."""
        if self._before is None or not self._before.processes:
            return None
        return device_shared(Sharing(foreign(self._before.processes, ()), known=True, waited_s=0.0).names)

    def _now_mib(self) -> float | None:
        if not self._pids:
            return None
        if not self._is_gpu:
            return _resident_mib(self._pids)
        sample = self._reader.sample()
        own = [p.memory_mib for p in sample.processes or () if p.pid in self._pids and p.memory_mib is not None]
        return sum(own) if own else self._more_than_before_mib(sample)

    def _more_than_before_mib(self, sample: Sample) -> float | None:
        if self._before is None or self._before.memory_used_mib is None or sample.memory_used_mib is None:
            return None
        return sample.memory_used_mib - self._before.memory_used_mib


@contextmanager
def probing(device: OwnDevice | None) -> Iterator[MemoryProbe]:
    """A probe for a server that starts while this is entered; on a GPU nobody else of ours starts one meanwhile."""
    if device is None:
        yield MemoryProbe(NoNvidia())
        return
    with device.hosting():
        yield MemoryProbe(device.reader)


def _resident_mib(pids: Sequence[int]) -> float | None:
    """The most that the processes had resident so far, as Linux keeps it; elsewhere what they have now."""
    import psutil

    found = []
    for pid in pids:
        try:
            found.append(_high_water_mib(pid) or psutil.Process(pid).memory_info().rss / _MIB)
        except psutil.Error:
            continue  # ended meanwhile
    return sum(found) if found else None


def _high_water_mib(pid: int) -> float | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) / 1024.0 for line in lines if line.startswith("VmHWM")), None)
