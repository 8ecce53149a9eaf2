"""What the client adds to what it measures: to the seconds of a decode at full speed, and to the load at a usual one.

pytest benchmarks/bench_client.py    on a quiet machine with two cores or more: the server's thread takes one
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from pytest_specdec.measure.ledger import Ledger
from pytest_specdec.measure.servers import LaunchedServers
from pytest_specdec.profile import compose, load
from pytest_specdec.records import Generation, Json, Mode
from pytest_specdec.server.build import locate
from pytest_specdec.server.client import Client
from pytest_specdec.server.process import AttachedServer, LiveServer
from pytest_specdec.stats.latency import mean_token_gap_ms
from pytest_specdec.workloads import load as load_workload

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

PROFILE = load("tiny")
PROMPTS = load_workload(PROFILE, "code").prompts
TOKENS = 2_000
REQUEST: Mapping[str, Json] = {"n_predict": TOKENS, "ignore_eos": True, "temperature": 0, "cache_prompt": False}
STALL_TIMEOUT_S = 60.0
GENERATIONS = 16
PACE_TOKENS_PER_S = 500
PACED_SECONDS = 10
PACED_ROUNDS = 8


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    """The plain target without drafting, one thread: thousands of tokens a second."""
    servers = LaunchedServers(locate("embedded"), PROFILE, Ledger(tmp_path / "run"))
    try:
        with servers.running(compose(PROFILE, "base"), Mode.EXACT) as live:
            yield live
    finally:
        servers.close()


@contextmanager
def replaying(recording: Path) -> Iterator[AttachedServer]:
    """A server of another process that sends these bytes at the pace."""
    command = [sys.executable, str(Path(__file__).with_name("paced_stream.py")), str(recording), str(PACE_TOKENS_PER_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield AttachedServer("base", f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


def answer_of(server: LiveServer, tokens: int) -> bytes:
    """The bytes of one streamed answer, headers and chunks as the server sent them."""
    asked = {**REQUEST, "n_predict": tokens, "prompt": PROMPTS[0].text, "stream": True, "return_tokens": True}
    body = json.dumps(asked).encode()
    host, _, port = server.url.removeprefix("http://").partition(":")
    head = (
        f"POST /completion HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {server.api_key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=STALL_TIMEOUT_S) as connection:
        connection.sendall(head.encode() + body)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def client_over_server(generation: Generation) -> float:
    """Decode seconds as the client saw them over the server's own.

    Both are from the first token to the last, so of n - 1 steps: the server starts the clock of ``predicted_ms`` when
    it has sampled the first token, though ``predicted_n`` counts it, and stops it when it has sampled the last.
    """
    seen_ms = mean_token_gap_ms([generation]) * (len(generation.tokens) - 1)
    return seen_ms / generation.timings.predicted_ms


@pytest.mark.benchmark(group="client")
def test_decode_seconds_at_full_speed(
    benchmark: BenchmarkFixture, server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    found: list[Generation] = []
    used_s: list[float] = []

    def generate(client: Client) -> None:
        before_s = time.process_time()
        found.append(client.stream(PROMPTS[len(found) % len(PROMPTS)].text, REQUEST))
        used_s.append(time.process_time() - before_s)

    with Client(server, STALL_TIMEOUT_S) as client:
        client.stream(PROMPTS[0].text, REQUEST)  # warms both up
        benchmark.pedantic(generate, (client,), rounds=GENERATIONS)  # type: ignore[no-untyped-call]
    # A stream leaves out tokens that end inside a character. Without the first or the last the two would not be alike.
    ratios = [client_over_server(generation) for generation in found if generation.complete]
    assert ratios, "every answer has tokens that end inside a character: take other prompts"
    low, median, high = statistics.quantiles(ratios)
    tokens_per_s = statistics.median(1e3 * (TOKENS - 1) / generation.timings.predicted_ms for generation in found)
    us_per_token = 1e6 * sum(used_s) / sum(len(generation.tokens) for generation in found)
    benchmark.extra_info["client / server"] = {"quartiles": [low, median, high], "generations": len(ratios)}
    with capsys.disabled():
        print(  # noqa: T201  the figure that this benchmark is for
            f"\ndecode seconds of the client / of the server at {tokens_per_s:.0f} tokens/s: {median:.4f} "
            f"({low:.4f} to {high:.4f}, {len(ratios)} generations); the client's processor: {us_per_token:.0f} µs/token"
        )


@pytest.mark.benchmark(group="client")
def test_processor_seconds_at_a_usual_speed(
    benchmark: BenchmarkFixture, server: LiveServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real answer sent again at a fixed pace: what another process does costs this one nothing.

    Beside it the same client on httpx's own transport, in turns.
    """
    recording = tmp_path / "answer.http"
    recording.write_bytes(answer_of(server, PACE_TOKENS_PER_S * PACED_SECONDS // 4))
    shares: list[float] = []
    shares_httpx: list[float] = []

    def generate(client: Client, found: list[float]) -> None:
        before_s, began_s = time.process_time(), time.perf_counter()
        client.stream(PROMPTS[0].text, REQUEST)
        found.append((time.process_time() - before_s) / (time.perf_counter() - began_s))

    with replaying(recording) as paced, Client(paced, STALL_TIMEOUT_S) as client, on_httpx_alone(paced) as other:

        def in_turns() -> tuple[tuple[Client, list[float]], dict[str, object]]:
            generate(other, shares_httpx)
            return (client, shares), {}

        benchmark.pedantic(generate, setup=in_turns, rounds=PACED_ROUNDS)  # type: ignore[no-untyped-call]
    ratio = statistics.median(own / other for own, other in zip(shares, shares_httpx, strict=True))
    benchmark.extra_info["processor seconds per second"] = {"client": shares, "on httpx's transport": shares_httpx}
    with capsys.disabled():
        print(  # noqa: T201  the figure that this benchmark is for
            f"\nthe client's processor seconds per second at {PACE_TOKENS_PER_S} tokens/s: {spread(shares)}; "
            f"on httpx's own transport {spread(shares_httpx)}; ratio {ratio:.2f}"
        )


@contextmanager
def on_httpx_alone(server: AttachedServer) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "pytest_specdec.server.client.OneRequestTransport",
            lambda _: httpx.HTTPTransport(limits=httpx.Limits(max_keepalive_connections=0)),
        )
        client = Client(server, STALL_TIMEOUT_S)
    with client:
        yield client


def spread(shares: list[float]) -> str:
    return f"{statistics.median(shares):.3f} ({min(shares):.3f} to {max(shares):.3f})"
