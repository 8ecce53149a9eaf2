"""The inflated target says what the target says, token for token, on a real server."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx

from pytest_specdec.models.inflate import inflated_target, target_as_f32

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROMPTS = ("class KettleStore:", "It began with a brass key, which", "α β γ", "def ", "# The file\n")


@contextlib.contextmanager
def served(model: Path) -> Iterator[httpx.Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = ["--host", "127.0.0.1", "--port", str(port), "--ctx-size", "1024", "--parallel", "1"]
    alone = ["--threads", "1", "--threads-batch", "1"]
    command = [sys.executable, "-m", "pytest_specdec.server.embedded", "--model", str(model), *place, *alone]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            wait_until_ready(client, process)
            yield client
    finally:
        process.terminate()
        process.wait(30)


def wait_until_ready(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the server ended with {process.returncode}"
        with contextlib.suppress(httpx.TransportError):
            if client.get("/health").status_code == httpx.codes.OK:
                return
        time.sleep(0.05)
    raise AssertionError("the server was not ready within a minute")


def replies(model: Path) -> list[Any]:
    with served(model) as client:
        request = {"n_predict": 64, "temperature": 0, "return_tokens": True, "cache_prompt": False}
        return [client.post("/completion", json={**request, "prompt": text}).json()["tokens"] for text in PROMPTS]


def test_the_inflated_target_says_the_same(tmp_path: Path) -> None:
    plain = tmp_path / "plain.gguf"
    target_as_f32(plain)
    inflated = inflated_target(feed_forward=4096, cache=tmp_path / "cache")
    expected = replies(plain)
    assert all(len(tokens) > 1 for tokens in expected)
    assert replies(inflated) == expected
