"""What one reading of the device costs. At 10 Hz, 500 µs are 0.5 % of one core.

pytest benchmarks/bench_telemetry.py
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec.device.reader import DeviceReader, NoNvidia, open_device
from pytest_specdec.device.telemetry import Telemetry
from pytest_specdec.errors import DeviceError

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

MOST_US = 500.0


def _reader() -> DeviceReader:
    try:
        return open_device()
    except DeviceError:
        return NoNvidia()


def test_one_reading(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """A reading with its line in the file, a server watched."""
    with Telemetry(_reader(), tmp_path / "telemetry.jsonl", rate_hz=1e-3) as telemetry:
        telemetry.watch([os.getpid()])
        benchmark(telemetry.sample_now)
    assert benchmark.stats is not None
    assert benchmark.stats.stats.median * 1e6 < MOST_US


def test_a_summary_late_in_a_run(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """The summary of one generation after many readings."""
    with Telemetry(NoNvidia(), tmp_path / "telemetry.jsonl", rate_hz=1e-3) as telemetry:
        for _ in range(5_000):
            last = telemetry.sample_now()
        benchmark(telemetry.summary, last.at_ns - 10_000_000, last.at_ns)
