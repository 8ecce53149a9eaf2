"""Readings of the device all through a run, in a background thread, so that each generation knows its own."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, TextIO

from pytest_specdec.device.samples import DeviceIdentity, Sample
from pytest_specdec.device.summary import NEAR_NS, Summary, summarise
from pytest_specdec.errors import DeviceError, LedgerError, SpecdecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import psutil

    from pytest_specdec.device.reader import DeviceReader
    from pytest_specdec.records import Json

__all__ = ["Telemetry", "TelemetryCost", "read_telemetry"]

RATE_HZ = 10.0
# The list of processes costs the driver more than the other fields and changes seldom.
_PROCESSES_EVERY = 10
# However slow a device answers, the thread spends at most this share of the time on it.
_MOST_DUTY = 0.02
_KEPT = 36_000  # one hour at 10 Hz
_MIB = 1024.0 * 1024.0
_STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class TelemetryCost:
    """What the readings cost: their number, their mean and longest duration, and their share of the time."""

    samples: int
    mean_us: float
    max_us: float
    duty: float


class Telemetry:
    """Appends one line per reading to a file from ``start`` to ``stop``; a context manager does both.

    A reading that fails ends the sampling; ``check`` raises what it met, so that no figure rests on an unread device.
    """

    def __init__(self, reader: DeviceReader, path: Path, *, rate_hz: float = RATE_HZ) -> None:
        self._reader = reader
        self._path = path
        self._period_s = 1.0 / rate_hz
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._watched: tuple[psutil.Process, ...] = ()
        self._server_pids: set[int] = set()
        self._lock = threading.RLock()  # one reading, one line, one look at the samples at a time
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._file: TextIO | None = None
        self._error: SpecdecError | None = None
        self._durations_ns = (0, 0, 0)  # how many, their sum, the longest
        self._began_ns = 0

    def start(self) -> None:
        """Open the file, take the first reading and go on in the background.

        Raises LedgerError when the file cannot be written, DeviceError when the device cannot be read.
        """
        try:
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise LedgerError(f"write {self._path}", str(error), "name a directory that can be written") from error
        self._began_ns = time.perf_counter_ns()
        self._write(_header(self._reader.identity, self._began_ns))
        self.sample_now()
        self._thread = threading.Thread(target=self._run, name="specdec-telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the file. May be called twice."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_TIMEOUT_S)
            if self._thread.is_alive():  # inside a driver that does not answer: the file stays with it
                why = f"the driver has not answered for {_STOP_TIMEOUT_S:.0f} s"
                self._error = DeviceError("end the telemetry", why, "see whether `nvidia-smi` answers")
                return
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def __enter__(self) -> Telemetry:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def watch(self, pids: Iterable[int]) -> None:
        """From now on these processes are the server; none when it has stopped."""
        watched = _opened(pids)
        with self._lock:
            self._watched = watched
            self._server_pids.update(process.pid for process in watched)

    def check(self) -> None:
        """Raise what ended the sampling, if something did: DeviceError, or LedgerError for a file that fails."""
        if self._error is not None:
            raise self._error

    def sample_now(self, *, with_processes: bool | None = None) -> Sample:
        """One reading at once, for a moment that must not fall between two.

        The list of processes is left out of most readings unless it is asked for. Raises DeviceError or LedgerError.
        """
        with self._lock:
            if with_processes is None:
                with_processes = self._durations_ns[0] % _PROCESSES_EVERY == 0
            began_ns = time.perf_counter_ns()
            sample = self._reader.sample(with_processes=with_processes)
            if self._watched:
                rss_mib, cpu_s = _use_of(self._watched)
                sample = replace(sample, rss_mib=rss_mib, ours_cpu_s=cpu_s + time.process_time())
            self._samples.append(sample)
            self._write(sample.to_json())
            spent_ns = time.perf_counter_ns() - began_ns
            number, sum_ns, longest_ns = self._durations_ns
            self._durations_ns = (number + 1, sum_ns + spent_ns, max(longest_ns, spent_ns))
            return sample

    def summary(self, start_ns: int, end_ns: int) -> Summary:
        """The device from ``start_ns`` to ``end_ns``, for what ran then. Raises what ``check`` raises."""
        self.check()
        summary = self._summary(start_ns, end_ns)
        if summary.samples:
            return summary
        self.sample_now()  # it ran between two readings, and only now ended
        return self._summary(start_ns, end_ns)

    @property
    def cost(self) -> TelemetryCost:
        """What the readings have cost so far."""
        number, sum_ns, longest_ns = self._durations_ns
        elapsed_ns = max(1, time.perf_counter_ns() - self._began_ns)
        return TelemetryCost(number, sum_ns / max(1, number) / 1e3, longest_ns / 1e3, sum_ns / elapsed_ns)

    def _summary(self, start_ns: int, end_ns: int) -> Summary:
        with self._lock:
            recent = list(takewhile(lambda sample: sample.at_ns >= start_ns - NEAR_NS, reversed(self._samples)))
        return summarise(recent[::-1], start_ns, end_ns, self._server_pids)

    def _run(self) -> None:
        pause_s = self._period_s
        while not self._stopping.wait(pause_s):
            began_s = time.perf_counter()
            try:
                self.sample_now()
            except SpecdecError as error:
                self._fail(error)
                return
            spent_s = time.perf_counter() - began_s
            pause_s = max(self._period_s - spent_s, spent_s / _MOST_DUTY - spent_s)

    def _fail(self, error: SpecdecError) -> None:
        self._error = error
        if isinstance(error, DeviceError):
            self._write({"at_ns": time.perf_counter_ns(), "error": str(error)})

    def _write(self, fields: Mapping[str, Json]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(fields, separators=(",", ":")) + "\n")
            self._file.flush()  # a killed run keeps its evidence
        except OSError as error:
            raise LedgerError(f"write {self._path}", str(error), "free some space, then measure again") from error


def read_telemetry(path: Path) -> list[Sample]:
    """The samples of a telemetry file; a last line that a killed run left half written is passed over.

    Raises LedgerError when the file cannot be read or another line is damaged.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"read {path}", str(error), "name the telemetry.jsonl of a run directory") from error
    samples = []
    for number, line in enumerate(lines[:-1], start=1):  # what follows the last line end is empty or half written
        try:
            fields = json.loads(line)
            if "telemetry" not in fields and "error" not in fields:
                samples.append(Sample.from_json(fields))
        except (ValueError, TypeError, KeyError) as error:
            raise LedgerError(f"read {path}", f"line {number}: {error}", "restore the file or drop this run") from error
    return samples


def _header(identity: DeviceIdentity, began_ns: int) -> dict[str, Json]:
    """The first line: the device, and the two clocks side by side, to tell the time of day of each sample."""
    return {"telemetry": 1, "device": asdict(identity), "perf_counter_ns": began_ns, "unix_s": time.time()}


def _opened(pids: Iterable[int]) -> tuple[psutil.Process, ...]:
    import psutil

    found = []
    for pid in pids:
        try:
            found.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue  # it ended first: nothing to watch
    return tuple(found)


def _use_of(processes: Sequence[psutil.Process]) -> tuple[float, float]:
    """Their resident memory in MiB and the seconds of CPU time that they have used, together."""
    import psutil

    rss_bytes, cpu_s = 0, 0.0
    for process in processes:
        try:
            with process.oneshot():
                rss_bytes += process.memory_info().rss
                times = process.cpu_times()
        except psutil.Error:
            continue  # ended meanwhile
        cpu_s += times.user + times.system
    return rss_bytes / _MIB, cpu_s
