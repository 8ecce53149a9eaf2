"""Readings of an NVIDIA device through NVML: the only module that knows pynvml."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_specdec.device.samples import ComputeProcess, DeviceIdentity, Sample
from pytest_specdec.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Nvml", "NvmlAbsentError", "NvmlReader"]

T = TypeVar("T")

_MIB = 1024.0 * 1024.0
_CPU_INSTEAD = "or pass --specdec-device=cpu"

# What a user can do about NVML's return codes, by number: 4 is NVML_ERROR_NO_PERMISSION and so on (nvml.h).
_REMEDIES = {
    2: "name a device that `nvidia-smi -L` lists with --specdec-device",
    4: "run as a user who may read the device (for MIG and process lists: an administrator, or the container option "
    "that passes the device on), " + _CPU_INSTEAD,
    6: "name a device that `nvidia-smi -L` lists with --specdec-device",
    9: "load the NVIDIA driver (`nvidia-smi` must work), " + _CPU_INSTEAD,
    12: "install the NVIDIA driver's library libnvidia-ml, " + _CPU_INSTEAD,
    15: "the GPU fell off the bus: look for Xid lines in the kernel's log, then restart the machine; "
    "measure again from a cool start",
    16: "the GPU asks for a reset: `nvidia-smi --gpu-reset` or a restart, then measure again",
    17: "the system blocks the device, often a container without it: pass the device on, " + _CPU_INSTEAD,
    18: "the driver was updated under a running kernel module: restart the machine or reload the module, "
    + _CPU_INSTEAD,
}
_NOT_SUPPORTED = (3, 13)  # NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_FUNCTION_NOT_FOUND
_INSUFFICIENT_SIZE = 7
_ABSENT = (9, 12)  # NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIBRARY_NOT_FOUND


class NvmlAbsentError(DeviceError):
    """There is no NVIDIA driver here, or pynvml is not installed: as it is on a machine without such a device."""


class Nvml:
    """The open library. Every failure that is not "not supported" is a DeviceError with its remedy."""

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError as error:
            raise NvmlAbsentError(
                "load NVML", f"pynvml is not installed ({error})", "pip install 'pytest-specdec[gpu]', " + _CPU_INSTEAD
            ) from error
        self.library: Any = pynvml
        self.call("start NVML", pynvml.nvmlInit)

    def call(self, tried: str, function: Callable[..., T], *arguments: Any) -> T:
        """The function's result. Raises DeviceError on any failure of NVML."""
        try:
            return function(*arguments)
        except self.library.NVMLError as error:
            raise _explained(tried, error) from error

    def optional(self, tried: str, *calls: Callable[[], T]) -> T | None:
        """The result of the first call that this device and driver support, else None. Raises as ``call`` does."""
        for attempt in calls:
            try:
                return attempt()
            except self.library.NVMLError as error:
                if error.value not in _NOT_SUPPORTED:
                    raise _explained(tried, error) from error
        return None

    def handles(self) -> tuple[Any, ...]:
        """All devices, in the order of the bus."""
        count = self.call("count the NVIDIA devices", self.library.nvmlDeviceGetCount)
        get = self.library.nvmlDeviceGetHandleByIndex
        return tuple(self.call(f"open device {index}", get, index) for index in range(count))

    def handle_of(self, uuid: str) -> Any:
        """The GPU or MIG instance with this UUID."""
        return self.call(f"open device {uuid}", self.library.nvmlDeviceGetHandleByUUID, uuid)

    def uuid(self, handle: Any) -> str:
        """The UUID of a GPU or of a MIG instance."""
        return str(self.call("read a device's UUID", self.library.nvmlDeviceGetUUID, handle))

    def parent_of(self, instance: Any) -> Any:
        """The GPU of a MIG instance."""
        return self.call(
            "open the GPU of a MIG instance", self.library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, instance
        )

    def mig_enabled(self, gpu: Any) -> bool | None:
        """Whether the GPU is divided into instances; None where it cannot be."""
        modes = self.optional("read the MIG mode", lambda: self.library.nvmlDeviceGetMigMode(gpu))
        return None if modes is None else modes[0] == self.library.NVML_DEVICE_MIG_ENABLE

    def mig_instances(self, gpu: Any) -> tuple[str, ...]:
        """The UUIDs of a GPU's MIG instances."""
        library = self.library
        most = self.optional("count MIG instances", lambda: library.nvmlDeviceGetMaxMigDeviceCount(gpu)) or 0
        found = []
        for index in range(most):
            try:
                found.append(self.uuid(library.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)))
            except library.NVMLError:
                continue  # a slot without an instance
        return tuple(found)

    def close(self) -> None:
        """Shut NVML down; a device that is lost has nothing left to shut."""
        with contextlib.suppress(self.library.NVMLError):
            self.library.nvmlShutdown()


class NvmlReader:
    """One GPU, or one MIG instance: memory and processes are the instance's, clocks and heat those of its GPU."""

    def __init__(self, nvml: Nvml, handle: Any, parent: Any | None = None) -> None:
        self._nvml = nvml
        self._handle = handle
        self._gpu = handle if parent is None else parent
        self._identity = self._identify(is_instance=parent is not None)

    @property
    def identity(self) -> DeviceIdentity:
        """Which device this is."""
        return self._identity

    def sample(self, *, with_processes: bool = True) -> Sample:
        """One reading. Raises DeviceError when the device is lost or may not be read."""
        n, gpu = self._nvml.library, self._gpu
        optional = self._nvml.optional
        at_ns = time.perf_counter_ns()
        power_mw = optional("read the power", lambda: n.nvmlDeviceGetPowerUsage(gpu))
        limit_mw = optional("read the power limit", lambda: n.nvmlDeviceGetEnforcedPowerLimit(gpu))
        utilisation = optional("read the utilisation", lambda: n.nvmlDeviceGetUtilizationRates(self._handle))
        memory = self._memory()
        return Sample(
            at_ns=at_ns,
            temperature_c=self._temperature_c(),
            sm_clock_mhz=optional("read the SM clock", lambda: n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_SM)),
            memory_clock_mhz=optional("read the memory clock", lambda: n.nvmlDeviceGetClockInfo(gpu, n.NVML_CLOCK_MEM)),
            power_w=None if power_mw is None else power_mw / 1000.0,
            power_limit_w=None if limit_mw is None else limit_mw / 1000.0,
            utilisation_pct=None if utilisation is None else float(utilisation.gpu),
            memory_used_mib=None if memory is None else memory.used / _MIB,
            memory_total_mib=None if memory is None else memory.total / _MIB,
            reasons=self._reasons(),
            processes=self.processes() if with_processes else None,
        )

    def processes(self) -> tuple[ComputeProcess, ...] | None:
        """The processes that compute on the device, their memory added up per process; None where not supported."""
        n = self._nvml.library

        def read() -> list[Any]:
            try:
                return list(n.nvmlDeviceGetComputeRunningProcesses_v3(self._handle))
            except n.NVMLError as error:
                if error.value != _INSUFFICIENT_SIZE:  # more processes came while NVML counted them
                    raise
                return list(n.nvmlDeviceGetComputeRunningProcesses_v3(self._handle))

        def read_of_an_old_driver() -> list[Any]:
            return list(n.nvmlDeviceGetComputeRunningProcesses_v2(self._handle))

        listed = self._nvml.optional("list the compute processes", read, read_of_an_old_driver)
        return None if listed is None else _per_process(listed)

    def close(self) -> None:
        """Shut NVML down."""
        self._nvml.close()

    def _temperature_c(self) -> int | None:
        n = self._nvml.library
        calls: list[Callable[[], int]] = [lambda: n.nvmlDeviceGetTemperature(self._gpu, n.NVML_TEMPERATURE_GPU)]
        if hasattr(n, "nvmlDeviceGetTemperatureV"):  # the successor; NVIDIA removes the other in CUDA 14
            calls.append(lambda: n.nvmlDeviceGetTemperatureV(self._gpu, n.NVML_TEMPERATURE_GPU))
        return self._nvml.optional("read the temperature", *calls)

    def _reasons(self) -> int | None:
        n = self._nvml.library
        return self._nvml.optional(
            "read the clock event reasons",
            lambda: int(n.nvmlDeviceGetCurrentClocksEventReasons(self._gpu)),
            lambda: int(n.nvmlDeviceGetCurrentClocksThrottleReasons(self._gpu)),  # its name before driver 535
        )

    def _memory(self) -> Any:
        n = self._nvml.library
        # Version 2 leaves out what the driver reserves for itself, as nvidia-smi does.
        return self._nvml.optional(
            "read the memory",
            lambda: n.nvmlDeviceGetMemoryInfo(self._handle, version=n.nvmlMemory_v2),
            lambda: n.nvmlDeviceGetMemoryInfo(self._handle),
        )

    def _identify(self, *, is_instance: bool) -> DeviceIdentity:
        nvml = self._nvml
        gpu_uuid = nvml.uuid(self._gpu)
        seen_as = nvml.uuid(self._handle) if is_instance else gpu_uuid
        memory = self._memory()
        return DeviceIdentity(
            key=gpu_uuid,
            name=str(nvml.call("read the device's name", nvml.library.nvmlDeviceGetName, self._handle)),
            driver=str(nvml.call("read the driver's version", nvml.library.nvmlSystemGetDriverVersion)),
            mig=nvml.mig_enabled(self._gpu),
            memory_total_mib=None if memory is None else memory.total / _MIB,
            environment={"CUDA_VISIBLE_DEVICES": seen_as},
        )


def _per_process(listed: list[Any]) -> tuple[ComputeProcess, ...]:
    memory_bytes: dict[int, int | None] = defaultdict(int)
    for entry in listed:
        so_far = memory_bytes[entry.pid]
        unknown = so_far is None or entry.usedGpuMemory is None
        memory_bytes[entry.pid] = None if unknown else so_far + entry.usedGpuMemory
    return tuple(
        ComputeProcess(pid, None if used is None else used / _MIB) for pid, used in sorted(memory_bytes.items())
    )


def _explained(tried: str, error: Any) -> DeviceError:
    kind = NvmlAbsentError if error.value in _ABSENT else DeviceError
    remedy = _REMEDIES.get(error.value, "see whether `nvidia-smi` works here, " + _CPU_INSTEAD)
    return kind(tried=tried, why=f"NVML says: {error} (code {error.value})", remedy=remedy)
