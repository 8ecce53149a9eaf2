"""When something arrived is when its bytes did, not when they were understood."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext

import httpx
import pytest
from httpx_sse import SSEError

from pytest_specdec.server.stream import Arrivals

EVENT_STREAM = httpx.Headers({"Content-Type": "text/event-stream"})


class Sent(httpx.SyncByteStream):
    """Pieces that leave one after the other, and when each was about to leave."""

    def __init__(self, *pieces: str, then: Exception | None = None) -> None:
        self.pieces = pieces
        self.then = then
        self.left_ns: list[int] = []

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            self.left_ns.append(time.perf_counter_ns())
            yield piece.encode()
        self.left_ns.append(time.perf_counter_ns())
        if self.then is not None:
            raise self.then


def arrived(sent: Sent) -> Arrivals:
    arrivals = Arrivals()
    arrivals.keep(httpx.Response(200, stream=sent))
    return arrivals


def test_an_event_has_the_time_of_the_piece_that_ended_it() -> None:
    sent = Sent("data: 1\n\n", "data: 2\n\ndata: 3\n\nda", "ta: 4", "\n\n")
    arrivals = arrived(sent)
    found = [(event.data, arrivals.stamp_ns) for event in arrivals.events(EVENT_STREAM)]
    assert [data for data, _ in found] == ["1", "2", "3", "4"]
    for (_, stamp_ns), piece in zip(found, (0, 1, 1, 3), strict=True):
        assert sent.left_ns[piece] <= stamp_ns <= sent.left_ns[piece + 1]


def test_what_came_before_a_break_is_kept() -> None:
    arrivals = Arrivals()
    with pytest.raises(httpx.ReadError):
        arrivals.keep(httpx.Response(200, stream=Sent("data: 1\n\ndata: 2", then=httpx.ReadError("reset"))))
    assert [event.data for event in arrivals.events(EVENT_STREAM)] == ["1"]


def test_what_is_not_an_event_stream_is_refused() -> None:
    with pytest.raises(SSEError):
        list(arrived(Sent("{}")).events(httpx.Headers({"Content-Type": "application/json"})))


COMMENTS_AND_EVENTS = [
    (":\n\n", True),
    (":\r\n\r\n: ping\r\n\r\n", True),
    (":\n\ndata: 1\n\n", False),
    ("data: 1\n\n", False),
]


@pytest.mark.parametrize(("piece", "is_comment"), COMMENTS_AND_EVENTS)
def test_comments_are_no_progress(piece: str, is_comment: bool) -> None:
    arrivals, sent = Arrivals(), Sent("data: 0\n\n", piece)
    response = httpx.Response(200, stream=sent, request=httpx.Request("POST", "http://server"))
    with pytest.raises(httpx.ReadTimeout) if is_comment else nullcontext():
        arrivals.keep(response, stall_timeout_s=0.0)
    assert next(arrivals.events(EVENT_STREAM)).data == "0"


@pytest.mark.parametrize(("enough", "taken"), [(0, 0), (1, 1), (2, 3), (3, 3), (4, 4)])
def test_no_more_is_read_than_is_enough(enough: int, taken: int) -> None:
    arrivals = Arrivals()
    sent = Sent("data: 1\n\n", ":\n\n", "data: 2\n\ndata: 3\n\n", "data: 4\n\n", "data: 5\n\n")
    arrivals.keep(httpx.Response(200, stream=sent), enough_events=enough)
    assert len(list(arrivals.events(EVENT_STREAM))) == taken
    assert arrivals.is_cut


def test_an_answer_that_ends_before_is_whole() -> None:
    arrivals = Arrivals()
    arrivals.keep(httpx.Response(200, stream=Sent("data: 1\n\n")), enough_events=2)
    assert not arrivals.is_cut
