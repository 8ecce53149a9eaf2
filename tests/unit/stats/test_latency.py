"""Latency from the client's stamps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.records import CellKey, Generation, Mode, StopType, Timings
from pytest_specdec.stats.latency import (
    latency,
    mean_token_gap_ms,
    percentile,
    time_to_first_token_ms,
    token_gaps_ms,
)

MS = 1_000_000  # nanoseconds


def streamed(*events: tuple[int, int], started_ms: int = 0) -> Generation:
    """A generation whose events came at these milliseconds with so many tokens each."""
    tokens = sum(count for _, count in events)
    return Generation(
        cell=CellKey(Mode.SPEED, "code", "dflash2"),
        prompt_id="p0",
        block=0,
        ordinal=0,
        tokens=tuple(range(tokens)),
        stop_type=StopType.LIMIT,
        truncated=False,
        timings=Timings(0, 10, 1.0, tokens, 1.0, 0, 0),
        counters=None,
        started_ns=started_ms * MS,
        ended_ns=10**12,
        event_ns=tuple(at * MS for at, _ in events),
        event_tokens=tuple(count for _, count in events),
        pieces=("",) * len(events),
    )


def test_the_first_token_is_that_of_the_first_event_with_one() -> None:
    assert time_to_first_token_ms(streamed((150, 0), (170, 1), (180, 3), started_ms=100)) == pytest.approx(70.0)


def test_tokens_of_one_event_share_its_stamp() -> None:
    assert list(token_gaps_ms(streamed((10, 1), (30, 3), (60, 1)))) == [20.0, 0.0, 0.0, 30.0]


def test_the_mean_gap_is_the_time_from_first_to_last_over_tokens_less_one() -> None:
    assert mean_token_gap_ms([streamed((10, 1), (30, 3), (60, 1))]) == pytest.approx(50 / 4)


def test_over_generations_every_gap_counts_once() -> None:
    long, short = streamed((0, 1), (100, 10)), streamed((0, 1), (50, 1))
    assert mean_token_gap_ms([long, short]) == pytest.approx(150 / 11)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 16)), min_size=2, max_size=30))
def test_how_the_stream_is_cut_into_events_does_not_change_the_mean(events: list[tuple[int, int]]) -> None:
    ordered = sorted(events)
    apart = [(at, 1) for at, count in ordered for _ in range(count)]
    assert mean_token_gap_ms([streamed(*ordered)]) == pytest.approx(mean_token_gap_ms([streamed(*apart)]))


@pytest.mark.parametrize("generation", [streamed(), streamed((10, 0)), streamed((10, 1))])
def test_without_a_second_token_there_is_no_gap(generation: Generation) -> None:
    assert math.isnan(mean_token_gap_ms([generation]))
    assert len(token_gaps_ms(generation)) == 0


def test_without_a_token_there_is_no_first() -> None:
    assert math.isnan(time_to_first_token_ms(streamed((10, 0))))


def test_percentiles_are_over_tokens_of_all_generations() -> None:
    found = latency([streamed((0, 1), *((10 * i, 1) for i in range(1, 100))), streamed((5, 1), (1005, 1))])
    assert found.first_token_p50_ms == pytest.approx(2.5)
    assert found.first_token_p95_ms == pytest.approx(4.75)
    assert found.token_gap_p50_ms == found.token_gap_p90_ms == pytest.approx(10.0)
    assert found.token_gap_p99_ms == pytest.approx(10 + 0.01 * 990)  # between the 99th and the 100th of 100 gaps
    assert found.token_gap_mean_ms == pytest.approx((990 + 1000) / 100)


def test_of_nothing_there_is_no_latency() -> None:
    found = latency([streamed()])
    assert math.isnan(found.first_token_p50_ms)
    assert math.isnan(found.token_gap_mean_ms)
    assert math.isnan(found.token_gap_p99_ms)


def test_a_percentile_interpolates_between_values() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 50) == pytest.approx(2.5)
    assert percentile([7.0], 99) == 7.0
