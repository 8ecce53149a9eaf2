"""pytest-benchmark: a measured cell becomes one of its benchmarks, by its public fixture and marker alone.

A round of such a benchmark is one generation and lasts as long as a token of it took on average, by the server's clock:
the benchmark's timer is a clock that only the generations move. What pytest-benchmark saves, compares and draws is then
the seconds per token of each cell. Nothing is measured twice, so under xdist the worker that has the cell reports it;
pytest-benchmark itself switches off there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_specdec.records import Cell

__all__ = ["CLOCK", "MovedClock", "as_benchmark"]


class MovedClock:
    """Seconds that pass only when they are told to."""

    __name__ = "server"  # pytest-benchmark shows a timer by its name

    def __init__(self) -> None:
        self._now_s = 0.0

    def __call__(self) -> float:
        return self._now_s

    def pass_by(self, seconds: float) -> None:
        """Let that much time pass."""
        self._now_s += seconds


CLOCK = MovedClock()


@pytest.fixture
def as_benchmark(request: pytest.FixtureRequest) -> Callable[[Cell], None]:
    """Report a cell as this test's benchmark of pytest-benchmark: ``as_benchmark(cells["dflash2"])``.

    Mark the test with ``@pytest.mark.benchmark(timer=CLOCK)``. The group is the workload, the name the arm.
    """
    if not request.config.pluginmanager.hasplugin("benchmark"):
        pytest.skip("pytest-benchmark is not installed, or not active")
    benchmark = request.getfixturevalue("benchmark")
    return lambda cell: _report(cell, benchmark)


def _report(cell: Cell, benchmark: Any) -> None:
    from pytest_specdec.records import FigureKind

    valid = cell.valid_for(FigureKind.SPEED)
    per_token_s = [g.timings.predicted_ms / 1000 / max(1, g.timings.predicted_n - 1) for g in valid]
    benchmark.group, benchmark.name = cell.key.workload, cell.key.arm
    benchmark.extra_info.update(
        tokens_per_cycle=cell.tokens_per_cycle,
        acceptance=cell.acceptance if cell.drafted else None,
        cycles=cell.cycles,
        generations=len(cell.generations),
        voided=len(cell.generations) - len(valid),
    )
    if per_token_s:
        left = iter(per_token_s)
        benchmark.pedantic(lambda: CLOCK.pass_by(next(left)), rounds=len(per_token_s), iterations=1)
