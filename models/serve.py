"""A llama-server for the recipe: the command in ``$LLAMA_SERVER``, a binary or anything that takes its flags."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any

import httpx

from models.settings import CONTEXT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def flags(model: Path, threads: int) -> list[str]:
    count = str(threads)
    return [
        *("-m", str(model), "-c", str(CONTEXT), "-np", "1", "--cache-ram", "0"),
        *("-t", count, "-tb", count, "-td", count, "-tbd", count),
        # One side's idle workers that poll would take the cores of the other side's.
        *("--poll", "0", "--poll-batch", "0", "--poll-draft", "0", "--poll-batch-draft", "0"),
    ]


@contextlib.contextmanager
def server(model: Path, *more: str, threads: int = 1) -> Iterator[httpx.Client]:
    """Start a server, wait until it is ready, and stop it in the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = shlex.split(os.environ["LLAMA_SERVER"])
    with tempfile.TemporaryFile() as log:
        arguments = [*command, "--host", "127.0.0.1", "--port", str(port), *flags(model, threads), *more]
        process = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client:
                while not _ready(client):
                    if process.poll() is not None:
                        log.seek(0)
                        raise SystemExit(
                            f"{shlex.join(arguments)} ended with {process.returncode}:\n{log.read()[-1500:].decode()}"
                        )
                    time.sleep(0.05)
                yield client
        finally:
            process.terminate()
            process.wait()


def _ready(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def complete(client: httpx.Client, prompt: str, most: int, cached: bool = False) -> dict[str, Any]:
    """The greedy reply, with its tokens; ``cached`` lets the server keep what it knows of the prompt."""
    request = {"prompt": prompt, "n_predict": most, "temperature": 0, "return_tokens": True, "cache_prompt": cached}
    answer = client.post("/completion", json=request)
    answer.raise_for_status()
    reply: dict[str, Any] = answer.json()
    return reply
