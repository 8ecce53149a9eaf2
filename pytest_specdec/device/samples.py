"""What a device says of itself, as frozen values, and how they are written to and read from a line of JSON.

A field is None where the device does not support it: unknown, never zero.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specdec.records import Json

__all__ = ["CPU_KEY", "POWER_CAP", "SLOWDOWNS", "ComputeProcess", "DeviceIdentity", "Sample", "reason_names"]

CPU_KEY = "cpu"

# The bits of nvml.h. Those of SLOWDOWNS spoil a figure of speed: the card protects itself. POWER_CAP is normal under
# load: a card at its power limit is at its proper speed.
SLOWDOWNS: Mapping[int, str] = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
POWER_CAP = 0x04


def reason_names(reasons: int) -> tuple[str, ...]:
    """The names of the slowdowns among the clock event ``reasons``."""
    return tuple(name for bit, name in SLOWDOWNS.items() if reasons & bit)


@dataclass(frozen=True, slots=True)
class ComputeProcess:
    """A process that computes on the device; ``memory_mib`` is None where the driver does not tell.

    In a container an old driver gives the process ids of the host, which name nothing there.
    """

    pid: int
    memory_mib: float | None


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """Which device this is.

    ``key`` names its lock: the UUID of the physical GPU, or "cpu". ``environment`` makes a server see this device and
    no other.
    """

    key: str
    name: str
    driver: str | None = None
    mig: bool | None = None
    memory_total_mib: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_gpu(self) -> bool:
        """Whether it is anything but the CPU."""
        return self.key != CPU_KEY

    @property
    def baseline_key(self) -> str:
        """What its baselines are filed under: the name as a file name, ``rtx-pro-6000-blackwell`` or ``cpu``."""
        return re.sub(r"[^a-z0-9.]+", "-", self.name.lower()).strip("-").removeprefix("nvidia-")


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading, stamped ``at_ns`` by ``time.perf_counter_ns``.

    ``reasons`` are the clock event reasons, as NVML's bits. ``processes`` is None in the readings that left it out.
    Where the CPU is the device: ``load_1m`` is its load average, ``cpu_total_s`` the time of all cores since the
    machine started and ``cpu_busy_s`` how much of it was used. ``rss_mib`` is the resident memory of the watched
    server, ``ours_cpu_s`` the time that it and this process have used.
    """

    at_ns: int
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    utilisation_pct: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    reasons: int | None = None
    processes: tuple[ComputeProcess, ...] | None = None
    load_1m: float | None = None
    cpu_total_s: float | None = None
    cpu_busy_s: float | None = None
    rss_mib: float | None = None
    ours_cpu_s: float | None = None

    @property
    def slowdowns(self) -> tuple[str, ...]:
        """The thermal and hardware slowdowns at work; empty also where the device does not tell."""
        return reason_names(self.reasons or 0)

    @property
    def power_capped(self) -> bool:
        """Whether the card holds its clocks down to keep its power limit."""
        return bool((self.reasons or 0) & POWER_CAP)

    def to_json(self) -> dict[str, Json]:
        """What is known, without the fields that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, fields: Mapping[str, Json]) -> Sample:
        """The inverse of ``to_json``. Raises KeyError, TypeError or ValueError on anything else."""
        values = dict(fields)
        if "processes" in values:
            values["processes"] = tuple(ComputeProcess(p["pid"], p["memory_mib"]) for p in values["processes"])
        return cls(**values)
