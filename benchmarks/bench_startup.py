"""What the plugin costs where nobody uses it: pytest in an empty project, with and without it, side by side.

pytest benchmarks/bench_startup.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import clean_environment

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

WITH: tuple[str, ...] = ()
WITHOUT = ("-p", "no:specdec")
PAIRS = 15


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n", "utf-8")
    run(tmp_path, WITH)  # compiles whatever was never imported on this machine
    return tmp_path


def run(project: Path, arguments: tuple[str, ...]) -> None:
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments], cwd=project, check=True, stdout=subprocess.DEVNULL,
        env=clean_environment(SPECDEC_LLAMA_SERVER=""),
    )  # fmt: skip


def cpu_seconds(project: Path, arguments: tuple[str, ...]) -> float:
    """Processor time of the run, which a busy machine stretches far less than the time on the clock."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(project, arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.benchmark(group="start-up of pytest")
@pytest.mark.parametrize("arguments", [WITHOUT, WITH], ids=["without", "with"])
def test_start_up(benchmark: BenchmarkFixture, project: Path, arguments: tuple[str, ...]) -> None:
    benchmark.pedantic(run, (project, arguments), rounds=10, warmup_rounds=1)  # type: ignore[no-untyped-call]


def test_the_ratio_of_the_two(benchmark: BenchmarkFixture, project: Path) -> None:
    """In pairs, each in the other order than the one before, so that whatever drifts does so for both."""
    ratios = []
    for number in range(PAIRS):
        order = (WITH, WITHOUT) if number % 2 else (WITHOUT, WITH)
        took = {arguments: cpu_seconds(project, arguments) for arguments in order}
        ratios.append(took[WITH] / took[WITHOUT])
    low, median, high = statistics.quantiles(ratios)
    benchmark.extra_info["processor time with / without"] = {"quartiles": [low, median, high], "pairs": PAIRS}
    print(f"\nprocessor time with the plugin / without it: {median:.3f} ({low:.3f} to {high:.3f})")  # noqa: T201
    benchmark.pedantic(run, (project, WITH), rounds=1)  # type: ignore[no-untyped-call]
