"""Our transport against httpx's own, on the same wire: the same answers, and failures of the same kinds."""

from __future__ import annotations

import contextlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import certifi
import httpx
import pytest
import trustme

from pytest_specdec.server.transport import OneRequestTransport
from tests.web import Action, says, serving, streams

SILENT_S = 0.3
TIMEOUT = httpx.Timeout(SILENT_S, connect=5.0)


def sends(*parts: bytes, headers: str = "Transfer-Encoding: chunked", silent: bool = False) -> Action:
    """These bytes after the head of an answer, each in a packet of its own."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{headers}\r\n\r\n"
        for part in (head.encode(), *parts):
            handler.wfile.write(part)
            handler.wfile.flush()
        if silent:
            threading.Event().wait(2 * SILENT_S)
        handler.close_connection = True

    return act


def breaks(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def talks_something_else(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    handler.close_connection = True


ANSWERS: dict[str, Action] = {
    "whole": says('{"a": "ä"}'),
    "refused": says("no slot", status=500),
    "empty": says("", status=204),
    "until it closes": streams({"content": "x"}, {"content": "y"}),
    "in chunks": sends(b"4\r\nwiki\r\n", b"5;name=value\r\npedia\r\n", b"0\r\nTrailer: x\r\n\r\n"),
    "a chunk in pieces": sends(b"4\r", b"\nwi", b"ki", b"\r\n", b"0\r\n\r\n"),
    "compressed": sends(b"2\r\n\x1f\x8b\r\n0\r\n\r\n", headers="Transfer-Encoding: chunked\r\nContent-Encoding: x-own"),
    "held open": sends(b"four", headers="Content-Length: 4", silent=True),
    "redirected": sends(headers="Location: /elsewhere\r\nContent-Length: 0"),
    "cut short": streams({"content": "x"}, promised=9),
    "cut in a chunk": sends(b"4\r\nwi"),
    "cut before a chunk": sends(b"4\r\nwiki\r\n"),
    "no chunk": sends(b"wiki\r\n"),
    "silent": sends(b"4\r\nwiki\r\n", silent=True),
    "no answer": breaks,
    "no http": talks_something_else,
}


def outcome(transport: httpx.BaseTransport, url: str) -> tuple[object, ...]:
    """Status, type and text of the answer, or what arrived before which error."""
    got: list[bytes] = []
    client = httpx.Client(transport=transport, timeout=TIMEOUT, headers={"Connection": "close", "X-More": "1"})
    with client:
        try:
            with client.stream("POST", url + "/answer?a=1", json={"prompt": "ä"}) as response:
                for piece in response.iter_raw():
                    got.append(piece)  # noqa: PERF402  what came before an error counts
            return response.status_code, response.headers.get("content-type"), b"".join(got)
        except httpx.TransportError as error:
            return type(error), b"".join(got)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_and_failures_are_those_of_httpx(name: str) -> None:
    with serving({"/answer?a=1": ANSWERS[name]}) as web:
        own, theirs = (outcome(made, web.url) for made in (OneRequestTransport(web.url), httpx.HTTPTransport()))
    assert own == theirs
    assert web.asked == ["POST /answer?a=1"] * 2
    assert web.bodies[0] == web.bodies[1] == '{"prompt":"ä"}'


def test_the_head_of_a_request_is_that_of_httpx() -> None:
    seen: list[dict[str, str]] = []

    def keep(handler: BaseHTTPRequestHandler) -> None:
        seen.append({name.lower(): value for name, value in handler.headers.items()})
        says("{}")(handler)

    with serving({"/answer?a=1": keep}) as web:
        for transport in (OneRequestTransport(web.url), httpx.HTTPTransport()):
            outcome(transport, web.url)
    assert seen[0] == seen[1]
    assert seen[0]["x-more"] == "1"


def test_an_answer_that_nobody_reads_to_its_end_is_hung_up() -> None:
    gone = threading.Event()

    def until_it_breaks(handler: BaseHTTPRequestHandler) -> None:
        streams("data: x\n\n")(handler)
        handler.connection.settimeout(10)
        with contextlib.suppress(ConnectionResetError):  # what it gets where something was still unread
            assert handler.connection.recv(1) == b""
        gone.set()

    with serving({"/answer": until_it_breaks}) as web:
        with httpx.Client(transport=OneRequestTransport(web.url)) as client, client.stream("GET", web.url + "/answer"):
            assert not gone.is_set()
        assert gone.wait(10)


def test_what_is_in_flight_can_be_ended_from_another_thread() -> None:
    begun, over = threading.Event(), threading.Event()

    def goes_on(handler: BaseHTTPRequestHandler) -> None:
        streams("data: x\n\n", then=begun.set)(handler)
        over.wait(60)

    with serving({"/answer": goes_on}) as web, httpx.Client(transport=OneRequestTransport(web.url)) as client:
        transport = client._transport  # noqa: SLF001  the one that was given
        assert isinstance(transport, OneRequestTransport)

        def hang_up() -> None:
            begun.wait(60)
            transport.hang_up()

        threading.Thread(target=hang_up, daemon=True).start()
        with client.stream("GET", web.url + "/answer", timeout=60) as response:
            assert b"".join(response.iter_raw()) == b"data: x\n\n"
        assert not over.is_set(), "the server had not ended it"
        over.set()


@pytest.mark.parametrize("vouched", [True, False])
def test_a_secured_server_must_be_one_that_somebody_vouches_for(
    vouched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (authority if vouched else stranger).issue_cert("127.0.0.1").configure_cert(secured)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setattr(certifi, "where", lambda: str(tmp_path / "ca.pem"))
    with serving({"/answer?a=1": says("{}")}, secured) as web:
        assert web.url.startswith("https://")
        found = outcome(OneRequestTransport(web.url), web.url)
    assert found == ((200, "application/json", b"{}") if vouched else (httpx.ConnectError, b""))
