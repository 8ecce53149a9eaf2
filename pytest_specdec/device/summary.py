"""What the readings of one stretch of time say together. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from pytest_specdec.device.samples import ComputeProcess, Sample, reason_names
from pytest_specdec.records import Json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["NEAR_NS", "Summary", "summarise"]

# A generation shorter than the sampling period is described by the reading next to it, if that is as close as this.
NEAR_NS = 250_000_000
_LEAST_CPU_S = 0.5


@dataclass(frozen=True, slots=True)
class Summary:
    """The device during one stretch of time; a figure is None where nothing was read or the device does not tell it.

    ``slowdowns`` names the thermal and hardware slowdowns: empty when none was seen, None when nobody could tell.
    ``server_device_mib_max`` is the most device memory that the server had, where the driver tells it per process;
    ``server_rss_mib_max`` the most resident memory. ``foreign_cpu_share`` is what others took of all cores, 0 to 1.
    ``processes`` are all that computed on the device, each with its most memory; None when nobody could tell.
    """

    samples: int
    temperature_c_first: int | None = None
    temperature_c_max: int | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    utilisation_pct: float | None = None
    memory_used_mib_max: float | None = None
    server_device_mib_max: float | None = None
    server_rss_mib_max: float | None = None
    load_1m_max: float | None = None
    foreign_cpu_share: float | None = None
    slowdowns: tuple[str, ...] | None = None
    power_capped_share: float | None = None
    processes: tuple[ComputeProcess, ...] | None = None

    def to_json(self) -> dict[str, Json]:
        """What is known, without the fields that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def summarise(samples: Sequence[Sample], start_ns: int, end_ns: int, server_pids: Iterable[int] = ()) -> Summary:
    """What the samples say of the time from ``start_ns`` to ``end_ns`` (``perf_counter_ns``).

    ``server_pids`` are the processes whose device memory is the server's.
    """
    inside = [s for s in samples if start_ns <= s.at_ns <= end_ns] or _nearest(samples, start_ns, end_ns)
    pids = frozenset(server_pids)
    temperatures_c = [s.temperature_c for s in inside if s.temperature_c is not None]
    told = [s for s in inside if s.reasons is not None]
    return Summary(
        samples=len(inside),
        temperature_c_first=temperatures_c[0] if temperatures_c else None,
        temperature_c_max=max(temperatures_c, default=None),
        sm_clock_mhz=_median(s.sm_clock_mhz for s in inside),
        memory_clock_mhz=_median(s.memory_clock_mhz for s in inside),
        power_w=_mean(s.power_w for s in inside),
        utilisation_pct=_mean(s.utilisation_pct for s in inside),
        memory_used_mib_max=_max(s.memory_used_mib for s in inside),
        server_device_mib_max=_max(_server_device_mib(s, pids) for s in inside),
        server_rss_mib_max=_max(s.rss_mib for s in inside),
        load_1m_max=_max(s.load_1m for s in inside),
        foreign_cpu_share=_foreign_cpu_share(inside),
        slowdowns=tuple(sorted({name for s in told for name in reason_names(s.reasons or 0)})) if told else None,
        power_capped_share=fmean(s.power_capped for s in told) if told else None,
        processes=_processes(inside),
    )


def _nearest(samples: Sequence[Sample], start_ns: int, end_ns: int) -> list[Sample]:
    def distance_ns(sample: Sample) -> int:
        return max(start_ns - sample.at_ns, sample.at_ns - end_ns)

    nearest = min(samples, key=distance_ns, default=None)
    return [nearest] if nearest is not None and distance_ns(nearest) <= NEAR_NS else []


def _server_device_mib(sample: Sample, pids: frozenset[int]) -> float | None:
    known = [p.memory_mib for p in sample.processes or () if p.pid in pids and p.memory_mib is not None]
    return sum(known) if known else None


def _processes(samples: Sequence[Sample]) -> tuple[ComputeProcess, ...] | None:
    listed = [sample.processes for sample in samples if sample.processes is not None]
    if not listed:
        return None
    most_mib: dict[int, float | None] = {}
    for process in (process for processes in listed for process in processes):
        most_mib[process.pid] = _max([most_mib.get(process.pid), process.memory_mib])
    return tuple(ComputeProcess(pid, mib) for pid, mib in sorted(most_mib.items()))


def _foreign_cpu_share(samples: Sequence[Sample]) -> float | None:
    """What others took of all cores between the first and the last sample; None where that is too short to tell."""
    told = [s for s in samples if s.cpu_total_s is not None and s.cpu_busy_s is not None and s.ours_cpu_s is not None]
    if not told:
        return None
    first, last = told[0], told[-1]
    total_s = (last.cpu_total_s or 0.0) - (first.cpu_total_s or 0.0)
    busy_s = (last.cpu_busy_s or 0.0) - (first.cpu_busy_s or 0.0)
    ours_s = (last.ours_cpu_s or 0.0) - (first.ours_cpu_s or 0.0)
    if total_s < _LEAST_CPU_S or ours_s < 0.0:  # the kernel counts in steps of 0.01 s; another server came in between
        return None
    return min(1.0, max(0.0, (busy_s - ours_s) / total_s))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _median(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return float(median(known)) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return fmean(known) if known else None


def _max(values: Iterable[float | None]) -> float | None:
    return max(_known(values), default=None)
