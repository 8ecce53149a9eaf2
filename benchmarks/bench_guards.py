"""What the guards cost on one long generation: they run between requests, while the device waits.

pytest benchmarks/bench_guards.py
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.measure.guards import degenerate_loop, generation_voids
from pytest_specdec.measure.pair_guards import autocorrelated, clock_drift
from pytest_specdec.records import Cell, CellKey, Counters, Generation, Mode, StopType, Timings

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

KEY = CellKey(Mode.SPEED, "code", "dflash2")


def generation(tokens: tuple[int, ...], ordinal: int = 0) -> Generation:
    count, accepted = len(tokens), len(tokens) // 2
    return Generation(
        cell=KEY,
        prompt_id=f"p{ordinal}",
        block=0,
        ordinal=ordinal,
        tokens=tokens,
        stop_type=StopType.LIMIT,
        truncated=False,
        timings=Timings(0, 100, 10.0, count, 10.0 * count, 2 * accepted, accepted),
        counters=Counters(count // 4, 2 * accepted, accepted, count, ()),
        started_ns=ordinal,
        ended_ns=ordinal + 1,
        event_ns=(),
        event_tokens=(),
        pieces=("word ",) * count,
    )


def varied(count: int) -> tuple[int, ...]:
    rng = random.Random(1)
    return tuple(rng.randrange(32_000) for _ in range(count))


@pytest.mark.parametrize("tokens", [512, 8192])
def test_all_guards_of_a_sound_generation(benchmark: BenchmarkFixture, tokens: int) -> None:
    assert benchmark(generation_voids, generation(varied(tokens))) == ()


def test_a_loop_at_the_end(benchmark: BenchmarkFixture) -> None:
    assert benchmark(degenerate_loop, generation(varied(6000) + (7,) * 2192)) is not None


def test_the_drift_of_a_panel(benchmark: BenchmarkFixture) -> None:
    arms = [Cell(KEY, tuple(generation(varied(64), ordinal) for ordinal in range(64)))] * 6
    assert benchmark(clock_drift, arms) is None


def test_the_correlation_of_three_hundred_pairs(benchmark: BenchmarkFixture) -> None:
    rng = random.Random(2)
    assert benchmark(autocorrelated, [rng.gauss(0, 0.15) for _ in range(300)]) is None
