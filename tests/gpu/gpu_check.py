"""What only a machine with an NVIDIA GPU can show: ``python tests/gpu/gpu_check.py [DEVICE]``.

Reads every NVML field, holds the device's lock in two processes, measures what the telemetry costs a memory-bound
load, and follows a real CUDA allocation. Takes about half a minute. Prints a table; exits 0 when all holds, 1 with the
reasons when something does not, 2 when there is no such device.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from pytest_specdec.device.isolation import wait_for_release, wait_until_alone
from pytest_specdec.device.lock import DeviceLocks
from pytest_specdec.device.nvml import NvmlReader
from pytest_specdec.device.reader import DeviceReader, open_device
from pytest_specdec.device.telemetry import Telemetry
from pytest_specdec.device.waiting import Waiting
from pytest_specdec.errors import DeviceError

MIB = 1 << 20
ALLOCATED_MIB = 1024
COPIED_MIB = 512
# A CUDA context, and the granularity of the driver's pools.
SLACK_MIB = 64.0
MOST_COST = 0.005
SEGMENT_S = 1.5
# Without telemetry, with it, and back, so that a drift of the clocks cancels.
ORDER = (False, True, True, False) * 2
NEEDED = ("temperature_c", "sm_clock_mhz", "memory_clock_mhz", "power_w", "memory_used_mib", "reasons", "processes")

HOLDER = """
import sys
from pathlib import Path
from pytest_specdec.device.lock import DeviceLocks
with DeviceLocks(Path(sys.argv[1]), run_id="gpu-check").hold(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


class Table:
    """The rows so far, and the reasons why the check fails."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def row(self, name: str, value: object, failure: str | None = None) -> None:
        """One line; with ``failure`` the check fails for that reason."""
        mark = "FAIL" if failure else "ok"
        print(f"{mark:<5} {name:<34} {value}", flush=True)
        if failure:
            self.failures.append(f"{name}: {failure}")


class Cuda:
    """The few calls of the CUDA driver that the check needs. Raises RuntimeError on any failure."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise RuntimeError(f"the CUDA driver's library cannot be loaded: {error}") from error
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._device = device

    def allocate(self, mib: int) -> ctypes.c_uint64:
        """Device memory that has been written to, so that it exists."""
        pointer = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(mib * MIB))
        self._call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(1), ctypes.c_size_t(mib * MIB))
        self._call("cuCtxSynchronize")
        return pointer

    def free(self, pointer: ctypes.c_uint64) -> None:
        """Give it back."""
        self._call("cuMemFree_v2", pointer)

    def copies_per_s(self, target: ctypes.c_uint64, source: ctypes.c_uint64, seconds: float) -> float:
        """How many copies within the device it makes in a second: bound by memory, as decoding is."""
        count, began_s = 0, time.perf_counter()
        while time.perf_counter() - began_s < seconds:
            for _ in range(16):
                self._call("cuMemcpyDtoD_v2", target, source, ctypes.c_size_t(COPIED_MIB * MIB))
            self._call("cuCtxSynchronize")
            count += 16
        return count / (time.perf_counter() - began_s)

    def close(self) -> None:
        """Let the context go."""
        self._call("cuDevicePrimaryCtxRelease_v2", self._device)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} failed with CUDA error {code}")


def check_fields(table: Table, reader: DeviceReader) -> None:
    """Every field that a claim or a guard rests on can be read."""
    for name, value in asdict(reader.identity).items():
        table.row(f"identity.{name}", value)
    for name, value in asdict(reader.sample()).items():
        missing = value is None and name in NEEDED
        table.row(f"sample.{name}", value, "the device does not tell it, so its guard is blind" if missing else None)


def check_lock(table: Table, key: str, directory: Path) -> None:
    """A second process is kept out and told by whom; a holder that is killed leaves no lock."""
    words = [sys.executable, "-c", HOLDER, str(directory), key]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            held = holder.stdout is not None and holder.stdout.readline().strip() == "held"
            table.row("lock: held by another process", held, None if held else "it was not held")
            refusal = _refusal(directory, key)
            told = f"pid {holder.pid}" in refusal
            table.row("lock: who holds it", refusal or "nobody", None if told else "the holder was not named")
        finally:
            holder.kill()
    began_s = time.monotonic()
    with DeviceLocks(directory, timeout_s=10.0).hold(key):
        waited_s = time.monotonic() - began_s
    table.row("lock: free after kill -9", f"{waited_s:.2f} s", "slower than a second" if waited_s > 1.0 else None)


def _refusal(directory: Path, key: str) -> str:
    try:
        with DeviceLocks(directory, timeout_s=0.0).hold(key):
            return ""
    except DeviceError as error:
        return error.why


def check_memory(table: Table, reader: DeviceReader, cuda: Cuda) -> None:
    """A real allocation is seen, on the device and for this process, and seen to go."""
    before_mib, mine_before_mib = _used_mib(reader), _mine_mib(reader)
    pointer = cuda.allocate(ALLOCATED_MIB)
    grown_mib = _used_mib(reader) - before_mib
    mine_mib = _mine_mib(reader)
    cuda.free(pointer)
    off = abs(grown_mib - ALLOCATED_MIB) > SLACK_MIB
    table.row("memory: device", f"{grown_mib:+.0f} MiB for {ALLOCATED_MIB}", "not what was allocated" if off else None)
    if mine_mib is None or mine_before_mib is None:
        table.row(
            "memory: this process", "not told for this process id (a container, or MIG): memory claims use the total"
        )
    else:
        off = abs(mine_mib - mine_before_mib - ALLOCATED_MIB) > SLACK_MIB
        text = f"{mine_mib - mine_before_mib:+.0f} MiB, {mine_mib:.0f} in all"
        table.row("memory: this process", text, "not what was allocated" if off else None)
    released = wait_for_release(reader, (), before_mib, limit_s=10.0)
    kept = None if released.done else f"{released.kept_mib:.0f} MiB stay"
    table.row("memory: released", f"after {released.waited_s:.1f} s", kept)


def _used_mib(reader: DeviceReader) -> float:
    return reader.sample().memory_used_mib or 0.0


def _mine_mib(reader: DeviceReader) -> float | None:
    return next((p.memory_mib for p in reader.processes() or () if p.pid == os.getpid()), None)


def check_cost(table: Table, reader: DeviceReader, cuda: Cuda, directory: Path) -> None:
    """What sampling at 10 Hz costs: its share of the time, and a memory-bound load with and without it."""
    source, target = cuda.allocate(COPIED_MIB), cuda.allocate(COPIED_MIB)
    cuda.copies_per_s(target, source, SEGMENT_S)  # until the clocks are up
    rates: dict[bool, list[float]] = {False: [], True: []}
    for number, sampled in enumerate(ORDER):
        if not sampled:
            rates[False].append(cuda.copies_per_s(target, source, SEGMENT_S))
            continue
        with Telemetry(reader, directory / f"telemetry-{number}.jsonl") as telemetry:
            rates[True].append(cuda.copies_per_s(target, source, SEGMENT_S))
            telemetry.check()
            cost = telemetry.cost
    cuda.free(source)
    cuda.free(target)
    table.row("telemetry: one reading", f"{cost.mean_us:.0f} µs on average, {cost.max_us:.0f} µs at most")
    table.row("telemetry: share of a core", f"{cost.duty:.3%}")
    plain, sampled_rate = statistics.median(rates[False]), statistics.median(rates[True])
    noise = (max(rates[False]) - min(rates[False])) / plain
    slower = 1.0 - sampled_rate / plain
    too_slow = f"more than {MOST_COST:.1%} and the noise" if slower > MOST_COST + noise else None
    gib_per_s = 2 * COPIED_MIB / 1024
    table.row(
        "telemetry: copies within the device",
        f"{plain * gib_per_s:.0f} GiB/s without, {sampled_rate * gib_per_s:.0f} with: {slower:+.2%} "
        f"(spread without: {noise:.2%})",
        too_slow,
    )


def check(table: Table, reader: DeviceReader) -> None:
    """All checks, while this process holds the device."""
    identity = reader.identity
    with (
        tempfile.TemporaryDirectory() as scratch,
        DeviceLocks(run_id="gpu-check", timeout_s=600.0, waiting=Waiting(progress=print)).hold(identity.key),
    ):
        check_fields(table, reader)
        others = ", ".join(wait_until_alone(reader, (), limit_s=10.0, waiting=Waiting(progress=print)).names)
        table.row("isolation: other processes", others or "none", others and "the device is shared")
        check_lock(table, identity.key, Path(scratch))
        os.environ.update(identity.environment)
        cuda = Cuda()
        check_memory(table, reader, cuda)
        check_cost(table, reader, cuda, Path(scratch))
        cuda.close()


def main(selector: str | None = None) -> int:
    """Run the checks; the exit status."""
    try:
        reader = open_device(selector)
    except DeviceError as error:
        print(error)
        return 2
    if not isinstance(reader, NvmlReader):
        print("there is no NVIDIA device here, or its driver is not loaded: nothing was checked")
        return 2
    table = Table()
    try:
        check(table, reader)
    except (DeviceError, RuntimeError) as error:
        table.row("stopped", "", str(error))
    finally:
        reader.close()
    print("\n".join(["", "failed:", *table.failures]) if table.failures else "\nall checks hold")
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
