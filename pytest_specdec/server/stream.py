"""A streamed completion: kept as it arrives, understood once it has ended.

While the server decodes, the client must take little from it: on a CPU they share the cores. So a piece is only stamped
and kept; its events and tokens are taken out of it when that costs the measurement nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from httpx_sse import EventSource, ServerSentEvent

from pytest_specdec.records import Alternative

__all__ = ["Arrivals", "Completion"]


_NS_PER_S = 1e9
_END_OF_EVENT = b"\n\n"  # inside of an event JSON has its line breaks escaped


class Arrivals(httpx.SyncByteStream):
    """The pieces of one answer, each with the time at which it was here."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, bytes]] = []
        self.stamp_ns = 0
        """When the piece arrived that is being read again."""
        self.is_cut = False
        """Whether the answer had as many events as were enough, and might have had more."""

    def keep(
        self, response: httpx.Response, stall_timeout_s: float = math.inf, enough_events: float = math.inf
    ) -> None:
        """Read the answer to its end, or until it has ``enough_events``.

        A server whose decoding hangs goes on sending comments, so that connections stay open: they are no progress.
        Raises httpx.ReadTimeout when one arrives and nothing else has for ``stall_timeout_s``. What came before an
        error (httpx.TransportError) is kept.
        """
        pieces = response.iter_raw()
        events, progress_ns = 0, time.perf_counter_ns()
        while events < enough_events:
            piece = next(pieces, None)
            if piece is None:
                return
            stamp_ns = time.perf_counter_ns()
            self._pieces.append((stamp_ns, piece))
            if piece.startswith((b":", b"\n", b"\r")) and _is_comment(piece):
                if stamp_ns - progress_ns > stall_timeout_s * _NS_PER_S:
                    raise httpx.ReadTimeout("nothing but comments arrived", request=response.request)
            else:
                progress_ns = stamp_ns
                events += piece.count(_END_OF_EVENT)
        self.is_cut = True

    def __iter__(self) -> Iterator[bytes]:
        for stamp_ns, piece in self._pieces:
            self.stamp_ns = stamp_ns
            yield piece

    def events(self, headers: httpx.Headers) -> Iterator[ServerSentEvent]:
        """Every event of an answer with these headers; ``stamp_ns`` is of the piece that ended it. Raises SSEError."""
        return EventSource(httpx.Response(httpx.codes.OK, headers=headers, stream=self)).iter_sse()


@dataclass
class Completion:
    """What the events of one answer say; ``ended_ns`` is when there was no more."""

    ended_ns: int
    tokens: list[int] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    event_ns: list[int] = field(default_factory=list)
    event_tokens: list[int] = field(default_factory=list)
    alternatives: list[Alternative] = field(default_factory=list)
    final: dict[str, Any] | None = None

    def take(self, event: dict[str, Any], stamp_ns: int) -> None:
        """Add one event. Raises KeyError, TypeError or ValueError when it is not a completion event."""
        tokens = [int(token) for token in event.get("tokens", ())]
        if tokens or event["content"]:
            self.tokens += tokens
            self.event_ns.append(stamp_ns)
            self.event_tokens.append(len(tokens))
            self.pieces.append(event["content"])
            self.alternatives += [_alternative(row) for row in event.get("completion_probabilities", ())]
        if event["stop"]:
            self.final = event


def _is_comment(piece: bytes) -> bool:
    return all(line.startswith(b":") for line in piece.splitlines() if line)


def _alternative(row: Mapping[str, Any]) -> Alternative:
    """The best of the top list that is not the chosen token; an infinite gap where the list has no other."""
    others = [other for other in row["top_logprobs"] if other["id"] != row["id"]]
    if not others:
        return Alternative(token=-1, gap_nats=float("inf"))
    second = max(others, key=lambda other: float(other["logprob"]))
    return Alternative(token=int(second["id"]), gap_nats=float(row["logprob"]) - float(second["logprob"]))
