"""Waiting, clocks and summaries: pure arithmetic, on a clock that is moved by hand."""

from __future__ import annotations

import math

import pytest

from pytest_specdec.device.climate import clock_drift, cool_down
from pytest_specdec.device.isolation import foreign, wait_until_alone
from pytest_specdec.device.reader import NoNvidia
from pytest_specdec.device.samples import ComputeProcess, Sample
from pytest_specdec.device.summary import Summary, summarise
from pytest_specdec.device.waiting import Waiting

MS = 1_000_000


class Clock:
    """Seconds that pass only by waiting."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.lines: list[str] = []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    @property
    def waiting(self) -> Waiting:
        return Waiting(self.lines.append, lambda: self.now_s, self.sleep)


def test_a_wait_ends_as_soon_as_it_can_and_tells_about_every_second() -> None:
    clock = Clock()
    waited = clock.waiting.until(lambda s: None if s >= 3.0 else f"at {s:.2f}", limit_s=10.0, every_s=0.25)
    assert (waited.done, waited.seconds) == (True, 3.0)
    assert clock.lines == ["at 0.00", "at 1.00", "at 2.00"]


def test_a_wait_ends_at_its_limit_after_a_last_look() -> None:
    clock, looks = Clock(), []

    def step(waited_s: float) -> str:
        looks.append(waited_s)
        return "never"

    waited = clock.waiting.until(step, limit_s=1.1, every_s=0.5)
    assert not waited.done
    assert waited.seconds == pytest.approx(1.1)
    assert looks == pytest.approx([0.0, 0.5, 1.0, 1.1])


def test_a_wait_without_time_looks_once_and_tells_nobody() -> None:
    clock = Clock()
    assert not clock.waiting.until(lambda _: "busy", limit_s=0.0, every_s=1.0).done
    assert clock.lines == []


def test_a_wait_may_be_endless() -> None:
    clock = Clock()
    assert clock.waiting.until(lambda s: None if s > 1e4 else "", limit_s=math.inf, every_s=60.0).done


def test_a_machine_without_gpu_is_neither_cooled_nor_shared() -> None:
    clock = Clock()
    assert cool_down(NoNvidia(), 45.0, limit_s=60.0, waiting=clock.waiting).still_hot is None
    sharing = wait_until_alone(NoNvidia(), (), limit_s=60.0, waiting=clock.waiting)
    assert (sharing.names, sharing.known) == ((), False)
    assert clock.now_s == 100.0


def test_foreign_is_what_is_not_ours() -> None:
    processes = (ComputeProcess(1, 10.0), ComputeProcess(2, None))
    assert foreign(processes, {1}) == (ComputeProcess(2, None),)


@pytest.mark.parametrize(
    ("candidate", "drifts"),
    [
        (Summary(3, sm_clock_mhz=2400.0, memory_clock_mhz=14000.0, power_capped_share=0.0), False),
        (Summary(3, sm_clock_mhz=2340.0, memory_clock_mhz=14000.0, power_capped_share=0.0), False),
        (Summary(3, sm_clock_mhz=2300.0, memory_clock_mhz=14000.0, power_capped_share=0.0), True),
        (Summary(3, sm_clock_mhz=2500.0, memory_clock_mhz=14000.0, power_capped_share=0.0), True),
        (Summary(3, sm_clock_mhz=2300.0, memory_clock_mhz=14000.0, power_capped_share=0.5), False),
        (Summary(3, sm_clock_mhz=2300.0, memory_clock_mhz=7000.0, power_capped_share=0.5), True),
        (Summary(3), False),
    ],
)
def test_a_drift_of_clocks_is_one_that_the_power_limit_does_not_explain(candidate: Summary, drifts: bool) -> None:
    reference = Summary(3, sm_clock_mhz=2400.0, memory_clock_mhz=14000.0, power_capped_share=0.0)
    assert (clock_drift(reference, candidate).unexplained is not None) is drifts


def test_a_summary_takes_the_readings_of_its_own_time() -> None:
    samples = [
        Sample(100 * MS, temperature_c=50, sm_clock_mhz=2400, reasons=0, rss_mib=10.0),
        Sample(200 * MS, temperature_c=60, sm_clock_mhz=2400, reasons=0x4, processes=(ComputeProcess(7, 100.0),)),
        Sample(300 * MS, temperature_c=70, sm_clock_mhz=1800, reasons=0x4, rss_mib=30.0),
        Sample(400 * MS, temperature_c=90, sm_clock_mhz=600, reasons=0x40),
    ]
    summary = summarise(samples, 150 * MS, 350 * MS, server_pids=[7])
    assert summary == Summary(
        samples=2,
        temperature_c_first=60,
        temperature_c_max=70,
        sm_clock_mhz=2100.0,
        server_device_mib_max=100.0,
        server_rss_mib_max=30.0,
        slowdowns=(),
        power_capped_share=1.0,
        processes=(ComputeProcess(7, 100.0),),
    )
    assert summarise(samples, 150 * MS, 350 * MS).server_device_mib_max is None
    assert summarise(samples, 150 * MS, 450 * MS).slowdowns == ("hardware thermal slowdown",)


def test_a_summary_between_two_readings_takes_the_nearest_if_it_is_near() -> None:
    samples = [Sample(100 * MS, temperature_c=50), Sample(1000 * MS, temperature_c=60)]
    assert summarise(samples, 210 * MS, 220 * MS).temperature_c_max == 50
    assert summarise(samples, 800 * MS, 820 * MS).temperature_c_max == 60
    assert summarise(samples, 400 * MS, 420 * MS) == Summary(samples=0)
    assert summarise([], 0, 1) == Summary(samples=0)


def test_a_device_that_does_not_tell_its_reasons_is_not_called_unthrottled() -> None:
    assert summarise([Sample(5)], 0, 10).slowdowns is None
    assert summarise([Sample(5, reasons=0)], 0, 10).slowdowns == ()


def test_what_others_take_of_the_cores_is_what_we_did_not() -> None:
    first = Sample(0, cpu_total_s=1000.0, cpu_busy_s=500.0, ours_cpu_s=40.0)
    later = Sample(10, cpu_total_s=1008.0, cpu_busy_s=507.0, ours_cpu_s=45.0)
    assert summarise([first, later], 0, 10).foreign_cpu_share == 0.25
    soon = Sample(10, cpu_total_s=1000.4, cpu_busy_s=500.4, ours_cpu_s=40.0)
    other_server = Sample(10, cpu_total_s=1008.0, cpu_busy_s=507.0, ours_cpu_s=1.0)
    unwatched = Sample(10, cpu_total_s=1008.0, cpu_busy_s=507.0)
    for unknown in (soon, other_server, unwatched):
        assert summarise([first, unknown], 0, 10).foreign_cpu_share is None
