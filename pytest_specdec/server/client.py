"""Asks a live server for generations and keeps everything that can be observed of each."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import httpx
from httpx_sse import ServerSentEvent, SSEError

from pytest_specdec.errors import (
    AccessRefusedError,
    ClientError,
    MetricsMissingError,
    RequestRefusedError,
    ServerDiedError,
    StreamBrokenError,
    StreamOverrunError,
    StreamStalledError,
)
from pytest_specdec.records import CellKey, Generation, Json, Mode, StopType, Timings
from pytest_specdec.server.metrics import Totals, delta, parse
from pytest_specdec.server.process import LiveServer
from pytest_specdec.server.stream import Arrivals, Completion
from pytest_specdec.server.transport import OneRequestTransport

__all__ = ["Client"]

_CONNECT_TIMEOUT_S = 10.0
_DEATH_WAIT_S = 2.0
_BODY_SHOWN = 500
# Events beyond n_predict, each of a token or more, that are still kept: a reply of some tokens too many is for a claim
# to judge, one without end would never be judged.
_OVERRUN_EVENTS = 64

_Error = TypeVar("_Error", bound=ClientError)
PromptText: TypeAlias = str | Sequence[int]


class Client:
    """One client of one server. Never repeats a request: what failed once is evidence.

    Errors carry the arm, the prompt's id and the end of the server's log.
    """

    def __init__(self, server: LiveServer, stall_timeout_s: float) -> None:
        self.server = server
        self._stall_timeout_s = stall_timeout_s
        self._transport = OneRequestTransport(server.url)
        headers = {"Connection": "close"} | ({"Authorization": f"Bearer {server.api_key}"} if server.api_key else {})
        self._http = httpx.Client(
            base_url=server.url,
            headers=headers,
            timeout=httpx.Timeout(stall_timeout_s, connect=_CONNECT_TIMEOUT_S),
            transport=self._transport,
            trust_env=False,
        )
        self._totals: Totals | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the server stays."""
        self._http.close()

    def hang_up(self) -> None:
        """End what is in flight, in whatever thread: a llama-server may not stop while somebody waits for its words."""
        self._transport.hang_up()

    def generate(
        self,
        prompt: PromptText,
        request: Mapping[str, Json],
        *,
        prompt_id: str = "live",
        cell: CellKey | None = None,
        block: int = 0,
        ordinal: int = 0,
    ) -> Generation:
        """One streamed completion with its counters.

        ``prompt`` is text or token ids. The deltas of ``/metrics`` are right only while no other request is in flight.
        Raises RequestRefusedError, StreamBrokenError, StreamStalledError, StreamOverrunError, ServerDiedError or
        MetricsMissingError.
        """
        before = self._totals or self._read_totals(prompt_id)
        generation = self.stream(prompt, request, prompt_id=prompt_id, cell=cell, block=block, ordinal=ordinal)
        self._totals = self._read_totals(prompt_id)
        return replace(generation, counters=delta(before, self._totals))

    def stream(
        self,
        prompt: PromptText,
        request: Mapping[str, Json],
        *,
        prompt_id: str = "live",
        cell: CellKey | None = None,
        block: int = 0,
        ordinal: int = 0,
    ) -> Generation:
        """The same without reading ``/metrics``, so that several may be in flight; its ``counters`` are None."""
        started_ns = time.perf_counter_ns()
        completion = self._completed({**request, "prompt": prompt, "stream": True, "return_tokens": True}, prompt_id)
        try:
            return _generation(completion, cell or self._live_cell(), prompt_id, block, ordinal, started_ns)
        except (KeyError, TypeError, ValueError) as error:
            why = f"the last event lacks what was promised: {type(error).__name__} {error} in {completion.final}"
            raise self._error(StreamBrokenError, prompt_id, why[:_BODY_SHOWN]) from None

    def cut_off(
        self, prompt: PromptText, request: Mapping[str, Json], after_events: int, *, prompt_id: str = "live"
    ) -> int:
        """Begin a streamed completion, hang up after some events, and say how many had come.

        Raises as ``stream`` does, also when the stream ended by itself before that and without a last event.
        """
        body = {**request, "prompt": prompt, "stream": True}
        arrivals, headers, broken = self._arrivals(body, prompt_id, after_events)
        events = list(self._events(arrivals.events(headers), prompt_id)) if headers else []
        if broken is not None:
            raise self._transport_error(broken, prompt_id)
        if not arrivals.is_cut and not (events and events[-1].get("stop")):
            raise self._no_end(prompt_id, f"{len(events)} events")
        return min(len(events), after_events)

    def post(self, path: str, body: Mapping[str, Json], *, prompt_id: str = "live") -> Json:
        """A plain request with a JSON answer. Raises RequestRefusedError, ServerDiedError or StreamBrokenError."""
        try:
            response = self._http.post(path, json=dict(body))
        except httpx.HTTPError as error:
            raise self._transport_error(error, prompt_id) from None
        self._refuse_status(response, prompt_id)
        return self._json(response.text, prompt_id)

    def get(self, path: str, *, prompt_id: str = "live") -> httpx.Response:
        """A plain request, whatever its status."""
        try:
            return self._http.get(path)
        except httpx.HTTPError as error:
            raise self._transport_error(error, prompt_id) from None

    def _completed(self, body: Mapping[str, Json], prompt_id: str) -> Completion:
        asked = body.get("n_predict", -1)
        enough_events = asked + _OVERRUN_EVENTS if isinstance(asked, int) and asked >= 0 else math.inf
        arrivals, headers, broken = self._arrivals(body, prompt_id, enough_events)
        completion = Completion(time.perf_counter_ns())
        if headers:  # what the server said before a break explains it better than the break
            for event in self._events(arrivals.events(headers), prompt_id):
                self._take(completion, event, arrivals.stamp_ns, prompt_id)
        if broken is not None:
            raise self._transport_error(broken, prompt_id)
        if completion.final is None:
            seen = f"{len(completion.tokens)} tokens"
            if arrivals.is_cut:
                why = f"{seen} had come where n_predict is {asked}, and no end: the stream was cut off"
                raise self._error(StreamOverrunError, prompt_id, why)
            raise self._no_end(prompt_id, seen)
        return completion

    def _arrivals(
        self, body: Mapping[str, Json], prompt_id: str, enough_events: float
    ) -> tuple[Arrivals, httpx.Headers, httpx.HTTPError | None]:
        """What came, the headers of the answer (none where none came), and what broke it off."""
        arrivals, headers = Arrivals(), httpx.Headers()
        try:
            with self._http.stream("POST", "/completion", json=dict(body)) as response:
                if response.status_code != httpx.codes.OK:
                    response.read()
                self._refuse_status(response, prompt_id)
                headers = response.headers
                arrivals.keep(response, self._stall_timeout_s, enough_events)
        except httpx.HTTPError as error:
            return arrivals, headers, error
        return arrivals, headers, None

    def _no_end(self, prompt_id: str, seen: str) -> ClientError:
        why = f"the stream ended after {seen} without a last event"
        return self._died(prompt_id, why) or self._error(StreamBrokenError, prompt_id, why)

    def _events(self, arrived: Iterable[ServerSentEvent], prompt_id: str) -> Iterator[dict[str, Any]]:
        try:
            for event in arrived:
                if event.data == "[DONE]":
                    return
                decoded = self._json(event.data, prompt_id)
                if not isinstance(decoded, dict) or event.event == "error" or "error" in decoded:
                    raise self._error(
                        RequestRefusedError, prompt_id, f"an error in the stream: {event.data[:_BODY_SHOWN]}"
                    )
                yield decoded
        except SSEError as error:
            raise self._error(StreamBrokenError, prompt_id, f"the answer is not an event stream: {error}") from None

    def _take(self, completion: Completion, event: dict[str, Any], stamp_ns: int, prompt_id: str) -> None:
        try:
            completion.take(event, stamp_ns)
        except (KeyError, TypeError, ValueError) as error:
            why = f"an event is not of a completion: {type(error).__name__} {error} in {event}"
            raise self._error(StreamBrokenError, prompt_id, why[:_BODY_SHOWN]) from None

    def _read_totals(self, prompt_id: str) -> Totals:
        response = self.get("/metrics", prompt_id=prompt_id)
        try:
            if response.status_code != httpx.codes.OK:
                raise KeyError(f"HTTP {response.status_code} {response.text[:_BODY_SHOWN]}")
            return parse(response.text)
        except (KeyError, ValueError) as error:
            raise self._error(
                MetricsMissingError,
                prompt_id,
                f"/metrics does not give the counters of speculative decoding: {error}",
                "start the server with --metrics, fresh, from a build that counts drafts (b10499 does)",
            ) from None

    def _json(self, text: str, prompt_id: str) -> Json:
        try:
            return json.loads(text)
        except ValueError:
            why = f"it sent something that is not JSON: {text[:_BODY_SHOWN]!r}"
            raise self._error(StreamBrokenError, prompt_id, why) from None

    def _refuse_status(self, response: httpx.Response, prompt_id: str) -> None:
        if response.status_code != httpx.codes.OK:
            why = f"HTTP {response.status_code}: {response.text[:_BODY_SHOWN]}"
            raise self._error(_refusal(response.status_code), prompt_id, why)

    def _transport_error(self, error: httpx.HTTPError, prompt_id: str) -> ClientError:
        died = self._died(prompt_id, f"{type(error).__name__}: {error}")
        if died is not None:
            return died
        if isinstance(error, httpx.TimeoutException):
            why = f"nothing of an answer arrived for {self._stall_timeout_s:g} s, though the server still runs"
            return self._error(StreamStalledError, prompt_id, why)
        return self._error(StreamBrokenError, prompt_id, f"{type(error).__name__}: {error}")

    def _died(self, prompt_id: str, seen: str) -> ClientError | None:
        """A dying server closes its sockets a moment before it can be reaped."""
        deadline = time.monotonic() + _DEATH_WAIT_S
        while self.server.exit_code() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        code = self.server.exit_code()
        if code is None:
            return None
        died = self._error(ServerDiedError, prompt_id, f"the server ended with code {code} during the request ({seen})")
        died.exit_code = code
        return died

    def _error(
        self,
        kind: type[_Error],
        prompt_id: str,
        why: str,
        remedy: str = "send the same prompt by hand; the log says more",
    ) -> _Error:
        tried = f"asking the server of arm {self.server.arm} for prompt {prompt_id}"
        error = kind(tried, why, remedy, self.server.log_tail())
        error.arm = self.server.arm
        return error

    def _live_cell(self) -> CellKey:
        return CellKey(Mode.EXACT, "live", self.server.arm)


def _refusal(status_code: int) -> type[ClientError]:
    """A wrong key and a server that is still loading say nothing about the build."""
    about_access = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN, httpx.codes.SERVICE_UNAVAILABLE)
    return AccessRefusedError if status_code in about_access else RequestRefusedError


def _generation(
    completion: Completion, cell: CellKey, prompt_id: str, block: int, ordinal: int, started_ns: int
) -> Generation:
    final = completion.final
    if final is None:
        raise ValueError("no last event")
    return Generation(
        cell=cell,
        prompt_id=prompt_id,
        block=block,
        ordinal=ordinal,
        tokens=tuple(completion.tokens),
        stop_type=StopType(final["stop_type"]),
        truncated=bool(final["truncated"]),
        timings=_timings(final["timings"]),
        counters=None,
        started_ns=started_ns,
        ended_ns=completion.ended_ns,
        event_ns=tuple(completion.event_ns),
        event_tokens=tuple(completion.event_tokens),
        pieces=tuple(completion.pieces),
        alternatives=tuple(completion.alternatives),
    )


def _timings(row: Mapping[str, Any]) -> Timings:
    """The draft fields are absent when nothing was drafted."""
    return Timings(
        cache_n=int(row["cache_n"]),
        prompt_n=int(row["prompt_n"]),
        prompt_ms=float(row["prompt_ms"]),
        predicted_n=int(row["predicted_n"]),
        predicted_ms=float(row["predicted_ms"]),
        draft_n=int(row.get("draft_n", 0)),
        draft_n_accepted=int(row.get("draft_n_accepted", 0)),
    )
