"""How requests travel to a server: the standard library's HTTP behind httpx.

On a CPU the client's processor time is the server's. At 500 events a second a client on httpx's own transport takes
nearly twice as much of it: ``benchmarks/bench_client.py`` measures both side by side.
"""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakSet

import httpx

from pytest_specdec.server.process import needs_certificates

__all__ = ["OneRequestTransport"]

_READ_BYTES = 1 << 16


class OneRequestTransport(httpx.BaseTransport):
    """A connection of its own for each request, so that any number may be in flight.

    The server closes kept connections when it likes, and a request that was sent into a closing one is lost without
    having been seen.
    """

    def __init__(self, url: str) -> None:
        self._certificates = httpx.create_ssl_context(trust_env=False) if needs_certificates(url) else None
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def hang_up(self) -> None:
        """End every request that is in flight, in whatever thread: there it raises an httpx.TransportError."""
        for connected in list(self._sockets):
            with suppress(OSError):  # it has ended
                connected.shutdown(socket.SHUT_RDWR)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send it and read the head of its answer. Raises httpx.TransportError, as every transport of httpx does."""
        timeout_s = request.extensions["timeout"]
        connection = self._connection(request.url, timeout_s["connect"])
        try:
            with _named_as_httpx(request, httpx.ConnectTimeout, httpx.ConnectError):
                connection.connect()
            self._sockets.add(connection.sock)
            connection.sock.settimeout(timeout_s["read"])
            with _named_as_httpx(request, httpx.ReadTimeout, httpx.ReadError):
                path = request.url.raw_path.decode("ascii")
                connection.request(request.method, path, request.read(), dict(request.headers))
                answer = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        return httpx.Response(
            answer.status, headers=answer.getheaders(), stream=_Body(request, connection, answer), request=request
        )

    def _connection(self, url: httpx.URL, timeout_s: float | None) -> http.client.HTTPConnection:
        if self._certificates is None:
            return http.client.HTTPConnection(url.host, url.port, timeout=timeout_s)
        return http.client.HTTPSConnection(url.host, url.port, timeout=timeout_s, context=self._certificates)


class _Body(httpx.SyncByteStream):
    """What an answer says, piece by piece as it arrives."""

    def __init__(
        self, request: httpx.Request, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse
    ) -> None:
        self._request = request
        self._connection = connection
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        left = self._answer.length  # None where the answer ends with its last chunk or with the connection
        with _named_as_httpx(self._request, httpx.ReadTimeout, httpx.ReadError):
            while piece := self._answer.read1(_READ_BYTES if left is None else min(left, _READ_BYTES)):
                left = None if left is None else left - len(piece)
                yield piece
        if left:
            raise httpx.RemoteProtocolError(f"the answer ended {left} bytes too early", request=self._request)

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


@contextmanager
def _named_as_httpx(
    request: httpx.Request, on_timeout: type[httpx.TransportError], on_failure: type[httpx.TransportError]
) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise on_timeout(str(error), request=request) from error
    except http.client.HTTPException as error:
        raise httpx.RemoteProtocolError(repr(error), request=request) from error
    except OSError as error:
        raise on_failure(str(error), request=request) from error
