"""Choose the device and read it: one small interface, whether or not there is an NVIDIA device."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_specdec.device.nvml import Nvml, NvmlAbsentError, NvmlReader
from pytest_specdec.device.samples import CPU_KEY, ComputeProcess, DeviceIdentity, Sample
from pytest_specdec.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DeviceReader", "NoNvidia", "list_devices", "open_device"]

_MIB = 1024.0 * 1024.0
_CORE_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_LOADED_DRIVER = Path("/proc/driver/nvidia/version")


class DeviceReader(Protocol):
    """A device that can be read."""

    @property
    def identity(self) -> DeviceIdentity:
        """Which device this is."""

    def sample(self, *, with_processes: bool = True) -> Sample:
        """One reading. Raises DeviceError when the device is lost or may not be read."""

    def processes(self) -> tuple[ComputeProcess, ...] | None:
        """The processes that compute on the device; None where nobody can tell."""

    def close(self) -> None:
        """Let the device's library go."""


class NoNvidia:
    """The CPU as the device: its load and memory; no temperature, no clocks and no list of foreign processes.

    ``hide_gpus`` keeps the server from GPUs, where the user chose the CPU on a machine that may have some.
    """

    def __init__(self, *, hide_gpus: bool = False) -> None:
        self._hide_gpus = hide_gpus
        self._has_all_cores = has_all_cores()

    @property
    def identity(self) -> DeviceIdentity:
        """The CPU."""
        import psutil

        total_mib = psutil.virtual_memory().total / _MIB
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if self._hide_gpus else {}
        return DeviceIdentity(CPU_KEY, CPU_KEY, memory_total_mib=total_mib, environment=hidden)

    def sample(self, *, with_processes: bool = True) -> Sample:
        """One reading; what was used of the cores is told by two of them."""
        import psutil

        at_ns = time.perf_counter_ns()
        memory = psutil.virtual_memory()
        times = psutil.cpu_times()._asdict()
        # A virtual machine's guests are in the time of their host processes already.
        total_s = sum(seconds for name, seconds in times.items() if not name.startswith("guest"))
        busy_s = total_s - times["idle"] - times.get("iowait", 0.0)
        return Sample(
            at_ns=at_ns,
            memory_used_mib=(memory.total - memory.available) / _MIB,
            memory_total_mib=memory.total / _MIB,
            load_1m=psutil.getloadavg()[0],
            cpu_total_s=total_s if self._has_all_cores else None,
            cpu_busy_s=busy_s if self._has_all_cores else None,
        )

    def processes(self) -> tuple[ComputeProcess, ...] | None:
        """Unknown: every process computes on the CPU."""
        return None

    def close(self) -> None:
        """Nothing to let go."""


def open_device(selector: str | None = None, environment: Mapping[str, str] = os.environ) -> DeviceReader:
    """The device that ``selector`` names: ``cpu``, an index in the order of the bus, or a GPU's or MIG instance's UUID.

    Without a selector: the first of ``CUDA_VISIBLE_DEVICES``, else the first NVIDIA device, else the CPU.
    Raises DeviceError when the device does not exist, cannot be read, or is divided by MIG and no instance is named.
    """
    wanted = selector if selector is not None else _from_environment(environment)
    if wanted == CPU_KEY:
        return NoNvidia(hide_gpus=True)
    try:
        nvml = Nvml()
    except NvmlAbsentError:
        if wanted is not None or _LOADED_DRIVER.exists():
            raise
        return NoNvidia()
    try:
        return _opened(nvml, wanted)
    except DeviceError:
        nvml.close()
        raise


def list_devices() -> tuple[DeviceIdentity, ...]:
    """Every NVIDIA device, for a session that spreads over several; the CPU where there is none.

    Raises DeviceError when there are devices that cannot be read.
    """
    try:
        nvml = Nvml()
    except NvmlAbsentError:
        return (NoNvidia().identity,)
    try:
        identities = tuple(NvmlReader(nvml, handle).identity for handle in nvml.handles())
    finally:
        nvml.close()
    return identities or (NoNvidia().identity,)


def has_all_cores(quota: Path = _CORE_QUOTA) -> bool:
    """Whether all cores of the machine are ours to use: on a part of them, what others do elsewhere is no matter."""
    import psutil

    with suppress(OSError):
        if not quota.read_text("utf-8").startswith("max"):
            return False
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return usable is None or usable == psutil.cpu_count()


def _from_environment(environment: Mapping[str, str]) -> str | None:
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return None
    # CUDA may count in another order than NVML: no matter, since the server is given the UUID of what is opened here.
    first = visible.split(",")[0].strip()
    return CPU_KEY if first in ("", "-1", "NoDevFiles") else first


def _opened(nvml: Nvml, wanted: str | None) -> DeviceReader:
    if wanted is not None and wanted.startswith("MIG-"):
        instance = nvml.handle_of(wanted)
        return NvmlReader(nvml, instance, parent=nvml.parent_of(instance))
    gpu = _gpu(nvml, wanted)
    if gpu is None:
        nvml.close()
        return NoNvidia()
    if nvml.mig_enabled(gpu):
        instances = ", ".join(nvml.mig_instances(gpu)) or "none yet"
        raise DeviceError(
            tried=f"open device {nvml.uuid(gpu)}",
            why="MIG divides it, and no instance was named",
            remedy=f"name one with --specdec-device=MIG-... (there is: {instances}), "
            "or switch MIG off: nvidia-smi --mig 0",
        )
    return NvmlReader(nvml, gpu)


def _gpu(nvml: Nvml, wanted: str | None) -> Any | None:
    if wanted is not None and not wanted.isdigit():
        return nvml.handle_of(wanted)
    handles = nvml.handles()
    index = int(wanted or 0)
    if index < len(handles):
        return handles[index]
    if wanted is None:
        return None
    raise DeviceError(
        tried=f"open device {wanted}",
        why=f"there are {len(handles)} NVIDIA devices, counted from 0",
        remedy="name a device that `nvidia-smi -L` lists with --specdec-device",
    )
