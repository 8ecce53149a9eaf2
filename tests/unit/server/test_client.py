"""The client against a real server that misbehaves on the wire: every failure is named, and none is repeated."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

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
from pytest_specdec.records import CellKey, Counters, Mode, StopType
from pytest_specdec.server.client import Client
from pytest_specdec.server.process import Warden, pick_port, spawn
from tests.web import Action, Web, goes_on_with, last, metrics, part, says, serving, streams

CELL = CellKey(Mode.EXACT, "mixed", "dflash2")
QUIET = metrics((0, 0, 0, 0))


@dataclass
class Elsewhere:
    """A server in this process, with a log to show."""

    url: str
    arm: str = "dflash2"
    api_key: str | None = "the-key"
    code: int | None = None
    words: str = "the last words of the log"
    stopped: list[str] = field(default_factory=list)

    def exit_code(self) -> int | None:
        return self.code

    def log(self) -> str:
        return self.words

    def log_tail(self) -> str:
        return self.words

    def stop(self) -> None:
        self.stopped.append(self.arm)


@contextmanager
def client_of(completion: Action, readings: Action = QUIET, stall_s: float = 30.0) -> Iterator[tuple[Client, Web]]:
    with (
        serving({"/completion": completion, "/metrics": readings}) as web,
        Client(Elsewhere(web.url), stall_s) as client,
    ):
        yield client, web


@pytest.fixture
def soon_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in this process cannot die, so nobody need wait long to see that it has not."""
    monkeypatch.setattr("pytest_specdec.server.client._DEATH_WAIT_S", 0.05)


def ask(client: Client) -> object:
    return client.generate("prompt", {"n_predict": 3}, prompt_id="code-07", cell=CELL)


def test_everything_that_can_be_observed_is_kept() -> None:
    rows = [{"id": 5, "logprob": -0.5, "top_logprobs": [{"id": 5, "logprob": -0.5}, {"id": 9, "logprob": -2.0}]}]
    events = [{**part(5, content="a"), "completion_probabilities": rows}, part(6, 7, content="bc"), last(3)]
    with client_of(streams(*events), metrics((10, 4, 28, 6), (13, 5, 35, 8))) as (client, web):
        made = client.generate("prompt", {"n_predict": 3}, prompt_id="code-07", cell=CELL, block=2, ordinal=4)
    assert (made.cell, made.prompt_id, made.block, made.ordinal) == (CELL, "code-07", 2, 4)
    assert (made.tokens, made.event_tokens, made.pieces) == ((5, 6, 7), (1, 2), ("a", "bc"))
    assert made.counters == Counters(1, 7, 2, 3, (2,))
    assert (made.timings.predicted_n, made.timings.draft_n, made.timings.draft_n_accepted) == (3, 7, 2)
    assert made.stop_type is StopType.LIMIT
    assert [(a.token, a.gap_nats) for a in made.alternatives] == [(9, 1.5)]
    assert made.started_ns < made.event_ns[0] <= made.event_ns[1] <= made.ended_ns
    assert web.asked == ["GET /metrics", "POST /completion", "GET /metrics"]


def test_draft_fields_may_be_absent_and_an_only_choice_has_no_second() -> None:
    plain = last(1)
    timings = {k: v for k, v in dict(plain["timings"]).items() if not k.startswith("draft")}  # type: ignore[call-overload]
    row = {"id": 5, "logprob": 0.0, "top_logprobs": [{"id": 5, "logprob": 0.0}]}
    with client_of(streams({**part(5), "completion_probabilities": [row]}, {**plain, "timings": timings})) as (
        client,
        _,
    ):
        made = client.stream("prompt", {}, prompt_id="p", cell=CELL)
    assert (made.timings.draft_n, made.timings.draft_n_accepted, made.counters) == (0, 0, None)
    assert made.alternatives[0].gap_nats == math.inf


def test_totals_are_read_once_between_requests() -> None:
    with client_of(streams(part(1), last(1)), metrics((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2))) as (client, web):
        first, second = (client.generate("prompt", {}) for _ in range(2))
    assert first.counters == second.counters == Counters(1, 1, 1, 1, (1,))
    assert web.asked.count("GET /metrics") == 3


SILENT = r"nothing of an answer arrived for 0\.5 s, though the server still runs"
PING = ":\n\n"
HALF = 'data: {"content": "x", "tok'
MISBEHAVIOUR: dict[str, tuple[Action, type[ClientError], str]] = {
    "refused": (says('{"error": "no slot"}', status=500), RequestRefusedError, 'HTTP 500: {"error": "no slot"}'),
    "not found": (says("nothing", status=404), RequestRefusedError, "HTTP 404"),
    "wrong key": (says("Invalid API Key", status=401), AccessRefusedError, "HTTP 401: Invalid API Key"),
    "loading": (says("Loading model", status=503), AccessRefusedError, "HTTP 503"),
    "no stream": (says('{"content": "x"}'), StreamBrokenError, "the answer is not an event stream"),
    "no json": (streams(part(1), "data: {nonsense\n\n"), StreamBrokenError, "not JSON: '{nonsense'"),
    "no object": (streams(part(1), "data: 7\n\n"), RequestRefusedError, "an error in the stream: 7"),
    "an error event": (
        streams(part(1), {"error": {"code": 500, "message": "context full"}}), RequestRefusedError, "context full",
    ),
    "an error before a break": (
        streams(part(1), {"error": {"code": 500, "message": "context full"}}, promised=500),
        RequestRefusedError, "context full",
    ),
    "another event": (streams({"object": "chat"}), StreamBrokenError, "an event is not of a completion"),
    "odd tokens": (streams({**part(), "tokens": ["x"]}), StreamBrokenError, "an event is not of a completion"),
    "no end": (streams(part(1), part(2, 3)), StreamBrokenError, "ended after 3 tokens without a last event"),
    "nothing": (streams(), StreamBrokenError, "ended after 0 tokens"),
    "cut short": (streams(part(1), promised=500), StreamBrokenError, "RemoteProtocolError"),
    "half an event": (streams(part(1), HALF), StreamBrokenError, ""),
    "no timings": (streams(part(1), {**last(1), "timings": {}}), StreamBrokenError, "lacks what was promised"),
    "new stop type": (streams(part(1), last(1, stop_type="bored")), StreamBrokenError, "bored"),
}  # fmt: skip

# Who hangs up does not look into what came.
OF_A_COMPLETION = ("another event", "odd tokens", "no timings", "new stop type")


@pytest.mark.usefixtures("soon_sure")
@pytest.mark.parametrize("name", MISBEHAVIOUR)
def test_misbehaviour_is_named_with_prompt_arm_and_log_and_never_repeated(name: str) -> None:
    action, kind, words = MISBEHAVIOUR[name]
    with client_of(action) as (client, web), pytest.raises(kind) as caught:
        ask(client)
    assert type(caught.value) is kind
    told = str(caught.value)
    for word in ("prompt code-07", "arm dflash2", words, "| the last words of the log", "remedy: "):
        assert word in told
    assert web.asked.count("POST /completion") == 1


@pytest.mark.usefixtures("soon_sure")
def test_a_server_that_goes_silent_has_stalled() -> None:
    silence = threading.Event()
    with client_of(streams(part(1), then=lambda: void(silence.wait(60))), stall_s=0.5) as (client, web):
        with pytest.raises(StreamStalledError, match=SILENT):
            ask(client)
        silence.set()
    assert web.asked.count("POST /completion") == 1


@pytest.mark.usefixtures("soon_sure")
@pytest.mark.parametrize("events", [(), (part(1), part(2))])
def test_a_server_that_only_keeps_the_connection_open_has_stalled(events: tuple[object, ...]) -> None:
    """A decoding thread that hangs does not keep llama-server's other threads from their pings."""
    with (
        client_of(goes_on_with(PING, *events, every_s=0.1), stall_s=0.5) as (client, _),
        pytest.raises(StreamStalledError, match=SILENT),
    ):
        ask(client)


def test_pings_in_between_are_no_stall() -> None:
    with client_of(streams(PING, part(1), PING, PING, part(2), PING, last(2))) as (client, _):
        assert client.stream("prompt", {"n_predict": 2}).tokens == (1, 2)


@pytest.mark.usefixtures("soon_sure")
def test_a_reply_without_end_is_cut_off() -> None:
    with client_of(goes_on_with(part(1))) as (client, _), pytest.raises(StreamOverrunError) as caught:
        ask(client)
    told = str(caught.value)
    for words in ("tokens had come where n_predict is 3, and no end", "prompt code-07", "arm dflash2"):
        assert words in told


@pytest.mark.parametrize("n_predict", [3, -1])
def test_a_reply_of_some_tokens_too_many_is_for_a_claim_to_judge(n_predict: int) -> None:
    tokens = range(40 if n_predict > 0 else 90)
    events = [part(token, content="x" * (1 << 16)) for token in tokens]  # no two of which arrive at once
    with client_of(streams(*events, last(len(tokens)))) as (client, _):
        assert client.stream("prompt", {"n_predict": n_predict}).tokens == tuple(tokens)


@pytest.mark.parametrize("events", [0, 1, 2])
def test_a_stream_may_be_cut_off(events: int) -> None:
    with client_of(goes_on_with(part(1))) as (client, _):
        assert client.cut_off("prompt", {"n_predict": 500}, events) == events


@pytest.mark.usefixtures("soon_sure")
@pytest.mark.parametrize("name", [name for name in MISBEHAVIOUR if name not in OF_A_COMPLETION])
def test_what_goes_wrong_before_it_is_cut_off_is_named_as_well(name: str) -> None:
    action, kind, words = MISBEHAVIOUR[name]
    with client_of(action) as (client, _), pytest.raises(kind) as caught:
        client.cut_off("prompt", {"n_predict": 500}, 9, prompt_id="code-07")
    assert type(caught.value) is kind
    for word in ("prompt code-07", "arm dflash2", words.replace("3 tokens", "2 events").replace("tokens", "events")):
        assert word in str(caught.value)


@pytest.mark.usefixtures("soon_sure")
def test_a_server_that_stalls_before_it_is_cut_off() -> None:
    with (
        client_of(goes_on_with(PING, part(1), every_s=0.1), stall_s=0.5) as (client, _),
        pytest.raises(StreamStalledError, match=SILENT),
    ):
        client.cut_off("prompt", {"n_predict": 500}, 3)


@pytest.mark.usefixtures("soon_sure")
def test_where_nobody_listens(unused_port: int) -> None:
    with (
        Client(Elsewhere(f"http://127.0.0.1:{unused_port}"), 5.0) as client,
        pytest.raises(StreamBrokenError) as caught,
    ):
        client.stream("prompt", {}, prompt_id="code-07")
    assert "ConnectError" in str(caught.value)


@pytest.mark.parametrize(
    ("readings", "words"),
    [
        (says("off", status=501), "HTTP 501 off"),
        (says("llamacpp:tokens_predicted_total 5\n"), "spec_decode_num_drafts"),
        (says(""), "spec_decode_num_drafts"),
    ],
)
def test_counters_that_are_missing_are_missed_before_anything_is_asked(readings: Action, words: str) -> None:
    misread = pytest.raises(MetricsMissingError, match=words)
    with client_of(streams(part(1), last(1)), readings) as (client, web), misread:
        ask(client)
    assert "POST /completion" not in web.asked


def test_rounded_counters_decide_nothing() -> None:
    text = "llamacpp:tokens_predicted_total 1.00001e+06\n" + "".join(
        f"llamacpp:spec_decode_num_{name}_total 1\n" for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    with client_of(streams(part(1), last(1)), says(text)) as (client, _), pytest.raises(MetricsMissingError) as caught:
        ask(client)
    assert "tokens_predicted reads 1.00001e+06" in str(caught.value)


def test_plain_requests_fail_as_clearly() -> None:
    actions = {"/apply": says("no json"), "/bad": says("why", status=400)}
    with serving(actions) as web, Client(Elsewhere(web.url), 5.0) as client:
        with pytest.raises(StreamBrokenError, match="not JSON"):
            client.post("/apply", {})
        with pytest.raises(RequestRefusedError, match="HTTP 400: why"):
            client.post("/bad", {})
        assert client.get("/bad").status_code == 400


DIES = """
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b'data: {"content": "x", "tokens": [1], "stop": false}\\n\\n')
        self.wfile.flush()
        print("GGML_ASSERT failed", flush=True)
        os._exit(134)

server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("listening", flush=True)
server.serve_forever()
"""


def stream_it(client: Client) -> object:
    return client.stream("prompt", {}, prompt_id="code-07")


def cut_it_off(client: Client) -> object:
    return client.cut_off("prompt", {}, 2, prompt_id="code-07")


@pytest.mark.parametrize("request_it", [stream_it, cut_it_off])
def test_a_server_that_dies_in_the_middle_is_told_from_one_that_closes(
    tmp_path: Path, request_it: Callable[[Client], object]
) -> None:
    port = pick_port()
    warden = Warden()
    server = spawn(
        [sys.executable, "-c", DIES, str(port)], arm="dflash2", port=port, api_key="k", environment={},
        log_path=tmp_path / "log", stop_timeout_s=5, warden=warden,
    )  # fmt: skip
    try:
        while "listening" not in server.log():
            assert server.exit_code() is None
        with Client(server, 30.0) as client, pytest.raises(ServerDiedError) as caught:
            request_it(client)
    finally:
        server.stop()
        warden.close()
    assert caught.value.exit_code == 134
    told = str(caught.value)
    for word in ("the server ended with code 134", "prompt code-07", "arm dflash2", "| GGML_ASSERT failed"):
        assert word in told


@pytest.fixture
def unused_port() -> int:
    return pick_port()


def void(_: object) -> None:
    """Of a call whose answer nobody needs."""
