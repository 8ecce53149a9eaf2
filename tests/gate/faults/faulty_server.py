"""A launcher that puts a fault between a real llama-server and its clients, for speculative arms only.

    pytest --specdec-launcher="python tests/gate/faults/faulty_server.py alter_token:5" …

What follows the fault on the command line is the server's own command. Without a ``--spec-type`` among its words it is
run as it is, so that ``base`` stays what it was. Faults that take a position count the tokens of every reply from 0;
several faults are joined by ``+``.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))  # it is run by its path, as a launcher

from tests.gate.faults.completion_faults import Fault, parsed

_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive", "host"}


class Proxy(ThreadingHTTPServer):
    """Passes everything on to the server on ``behind``; completions go through the fault."""

    daemon_threads = True

    def __init__(self, port: int, behind: int, fault: Fault) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.behind = behind
        self.fault = fault


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self._pass_on(b"")

    def do_POST(self) -> None:
        self._pass_on(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def log_message(self, *_: object) -> None:
        """The log is the server's."""

    def _pass_on(self, body: bytes) -> None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=120)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
            connection.request(self.command, self.path, body, {**headers, "Connection": "close"})
            answer = connection.getresponse()
        except OSError:
            self.send_error(503, "the server behind is not there yet")
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.getheader("Content-Type", "application/json"))
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in self._pieces(answer, body):
            self.wfile.write(piece)
            self.wfile.flush()
        connection.close()

    def _pieces(self, answer: http.client.HTTPResponse, body: bytes) -> Iterator[bytes]:
        if answer.status != 200 or not self.path.startswith(("/completion", "/v1/completions")):
            yield answer.read()
            return
        request: dict[str, Any] = json.loads(body)
        if "event-stream" in answer.getheader("Content-Type", ""):
            for event in self.server.fault.events(request, _events(answer)):
                yield b"data: " + json.dumps(event).encode() + b"\n\n"
        else:
            whole = json.loads(answer.read())
            yield json.dumps(self.server.fault.whole(request, whole) if isinstance(whole, dict) else whole).encode()


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in answer:
        if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
            yield json.loads(line.removeprefix(b"data: "))


def main(fault: str, *command: str) -> int:
    """Run the command behind the fault until either ends."""
    if "--spec-type" not in command:
        os.execvp(command[0], command)
    port = int(command[command.index("--port") + 1])
    behind = _free_port()
    words = [str(behind) if word == str(port) else word for word in command]
    child = subprocess.Popen(words)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    proxy = Proxy(port, behind, parsed(fault))
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    return child.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
