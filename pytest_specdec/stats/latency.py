"""Latency as the client sees it, from its own stamps of the stream's events.

One event can carry several tokens, which then share its stamp: the gaps between them are 0. So the mean gap of a
generation is ``(last - first) / (tokens - 1)``, whatever the events were cut into, and percentiles are over tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_specdec.records import Generation

__all__ = [
    "Latency",
    "latency",
    "mean_token_gap_ms",
    "percentile",
    "time_to_first_token_ms",
    "token_gaps_ms",
]

NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of some generations in milliseconds; NaN where there is nothing to say."""

    first_token_p50_ms: float
    first_token_p95_ms: float
    token_gap_mean_ms: float
    token_gap_p50_ms: float
    token_gap_p90_ms: float
    token_gap_p99_ms: float


def time_to_first_token_ms(generation: Generation) -> float:
    """From the start of the request to the first event with a token; NaN without one."""
    stamps = _token_stamps_ns(generation)
    return (int(stamps[0]) - generation.started_ns) / NS_PER_MS if len(stamps) else math.nan


def token_gaps_ms(generation: Generation) -> NDArray[np.float64]:
    """Gaps between consecutive tokens, shape (tokens - 1,), 0 within an event."""
    return np.asarray(np.diff(_token_stamps_ns(generation)) / NS_PER_MS)


def mean_token_gap_ms(generations: Sequence[Generation]) -> float:
    """``sum(last - first) / sum(tokens - 1)``: each gap counts once, so long generations weigh more; NaN without."""
    stamps = [s for s in map(_token_stamps_ns, generations) if len(s) > 1]
    gaps = sum(len(s) - 1 for s in stamps)
    return sum(int(s[-1] - s[0]) for s in stamps) / NS_PER_MS / gaps if gaps else math.nan


def latency(generations: Sequence[Generation]) -> Latency:
    """Both latencies over all tokens of ``generations``."""
    first = [ms for ms in map(time_to_first_token_ms, generations) if not math.isnan(ms)]
    gaps = np.concatenate([np.empty(0), *map(token_gaps_ms, generations)])
    return Latency(
        first_token_p50_ms=percentile(first, 50),
        first_token_p95_ms=percentile(first, 95),
        token_gap_mean_ms=mean_token_gap_ms(generations),
        token_gap_p50_ms=percentile(gaps, 50),
        token_gap_p90_ms=percentile(gaps, 90),
        token_gap_p99_ms=percentile(gaps, 99),
    )


def percentile(values: Sequence[float] | NDArray[np.float64], percent: float) -> float:
    """Linear interpolation between order statistics (definition 7 of Hyndman and Fan, 1996); NaN of nothing."""
    return float(np.percentile(values, percent)) if len(values) else math.nan


def _token_stamps_ns(generation: Generation) -> NDArray[np.int64]:
    """The stamp of each token, shape (tokens,); an event without a token has none."""
    return np.repeat(np.array(generation.event_ns, dtype=np.int64), np.array(generation.event_tokens, dtype=np.int64))
