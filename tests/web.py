"""A small real HTTP server for tests: each path does what the test says, on the wire."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Action = Callable[[BaseHTTPRequestHandler], None]

METRICS = """# HELP llamacpp:tokens_predicted_total Number of generation tokens processed.
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total {predicted}
llamacpp:spec_decode_num_drafts_total {drafts}
llamacpp:spec_decode_num_draft_tokens_total {drafted}
llamacpp:spec_decode_num_accepted_tokens_total {accepted}
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="0"}} {accepted}
"""


class Web:
    """What it was asked, and where it listens."""

    def __init__(self, port: int, scheme: str) -> None:
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.port = port
        self.asked: list[str] = []
        self.bodies: list[str] = []


@contextmanager
def serving(actions: Mapping[str, Action], secured: ssl.SSLContext | None = None) -> Iterator[Web]:
    """Serve until the end of the block. A path without an action is answered with 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append(f"{self.command} {self.path}")
            web.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
            action = actions.get(self.path)
            if action is None:
                self.send_error(404)
            else:
                action(self)

        do_POST = do_GET  # noqa: N815  the name that http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing: what was asked is kept."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if secured is not None:
        server.socket = secured.wrap_socket(server.socket, server_side=True)
    web = Web(server.server_address[1], "https" if secured else "http")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()


def says(body: str, *, status: int = 200, content_type: str = "application/json") -> Action:
    """The whole answer at once."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        data = body.encode()
        handler.send_response(status)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return act


def streams(*events: object, then: Callable[[], None] | None = None, promised: int = 0) -> Action:
    """Server-sent events, text as it is and all else as JSON; ``promised`` bytes more are announced and never come."""
    texts = [_text(event) for event in events]

    def act(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        if promised:
            handler.send_header("Content-Length", str(sum(len(text.encode()) for text in texts) + promised))
        handler.end_headers()
        for text in texts:
            handler.wfile.write(text.encode())
            handler.wfile.flush()
        if then is not None:
            then()
        handler.close_connection = True

    return act


def _text(event: object) -> str:
    return event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n"


def goes_on_with(event: object, *before: object, every_s: float = 0.0, times: int = 200) -> Action:
    """Behind others the same event again and again, until the client hangs up or it has waited too long for that."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        again = _text(event).encode()
        with suppress(OSError):
            streams(*before)(handler)
            for _ in range(times):
                handler.wfile.write(again)
                time.sleep(every_s)

    return act


def part(*tokens: int, content: str = "x") -> dict[str, object]:
    """An event in the middle of a completion."""
    return {"content": content, "tokens": list(tokens), "stop": False}


def last(predicted: int, **more: object) -> dict[str, object]:
    """The event at the end of a completion."""
    timings = {
        "cache_n": 0, "prompt_n": 5, "prompt_ms": 1.5, "predicted_n": predicted, "predicted_ms": 2.5, "draft_n": 7,
        "draft_n_accepted": 2,
    }  # fmt: skip
    event = {"content": "", "tokens": [], "stop": True, "stop_type": "limit", "truncated": False, "timings": timings}
    return {**event, **more}


def metrics(*readings: tuple[int, int, int, int]) -> Action:
    """One reading after the other: predicted, drafts, drafted, accepted; the last one again and again."""
    left = list(readings)

    def act(handler: BaseHTTPRequestHandler) -> None:
        predicted, drafts, drafted, accepted = left.pop(0) if len(left) > 1 else left[0]
        text = METRICS.format(predicted=predicted, drafts=drafts, drafted=drafted, accepted=accepted)
        says(text, content_type="text/plain")(handler)

    return act
