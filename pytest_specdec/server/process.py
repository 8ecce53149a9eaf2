"""The life of one server, in steps: pick a port, spawn, wait until ready, use, stop. Attached servers look the same."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import httpx

from pytest_specdec.errors import NeverReadyError, PortTakenError, ServerError, ServerExitedError
from pytest_specdec.server import kin, warden
from pytest_specdec.server.command import redacted

__all__ = [
    "AttachedServer",
    "LaunchedServer",
    "LiveServer",
    "Warden",
    "needs_certificates",
    "new_api_key",
    "pick_port",
    "spawn",
    "wait_until_ready",
]

_TAIL_LINES = 15
_ABSENT_S = 5.0  # a server that somebody starts beside us listens before it loads
_HEALTH_TIMEOUT_S = 2.0
_LEAST_POLL_S = 0.005
_MOST_POLL_S = 0.5
_REMEDY_OURS = "look at the log; a large model on a slow disk may need a longer server.ready_timeout_s in the profile"
_REMEDY_OTHERS = (
    "is it a llama-server? Correct the URL, or wait until it has loaded its model: a run waits for that as long as "
    "server.ready_timeout_s in the profile says"
)


class LiveServer(Protocol):
    """What a client and a claim may know of a running server, whoever started it."""

    @property
    def arm(self) -> str:
        """The arm that it runs."""

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""

    @property
    def api_key(self) -> str | None:
        """Its key, None when it has none."""

    def exit_code(self) -> int | None:
        """None while it runs, as far as can be known from here."""

    def log(self) -> str:
        """All that it has printed; empty when its output is elsewhere."""

    def log_tail(self) -> str:
        """The last lines of the log."""

    def stop(self) -> None:
        """End it, if it is ours."""


class Warden:
    """Our end of the pipe to the process that outlives us; see ``warden.py``."""

    def __init__(self) -> None:
        command = (sys.executable, "-I", "-S", warden.__file__)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)
        self._line = threading.Lock()  # servers are started and stopped by several threads

    def watch(self, group: int) -> None:
        """End this process group when we are gone."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """The group has ended."""
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Close the pipe: what is still watched ends now."""
        with self._line, contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=2 * warden.GRACE_S)

    def _tell(self, line: str) -> None:
        with self._line, contextlib.suppress(BrokenPipeError):
            if self._process.stdin is not None and not self._process.stdin.closed:
                self._process.stdin.write(line)
                self._process.stdin.flush()


@dataclass(frozen=True)
class AttachedServer:
    """A server that somebody else runs. Stopping it is their business."""

    arm: str
    url: str
    api_key: str | None = None

    def exit_code(self) -> int | None:
        """Not ours to know."""
        return None

    def log(self) -> str:
        """Elsewhere."""
        return ""

    def log_tail(self) -> str:
        """Elsewhere."""
        return ""

    def stop(self) -> None:
        """Leaves it running."""


@dataclass
class LaunchedServer:
    """A server that we started, with its process group and its log file."""

    arm: str
    url: str
    api_key: str
    arguments: tuple[str, ...]
    log_path: Path
    stop_timeout_s: float
    _process: subprocess.Popen[bytes] = field(repr=False)
    _warden: Warden = field(repr=False)

    @property
    def pid(self) -> int:
        """Process id of the group's leader, the launcher if there is one."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._process.poll()

    def log(self) -> str:
        """All that it has printed."""
        return self.log_path.read_text("utf-8", errors="replace")

    def log_tail(self) -> str:
        """The last lines of the log."""
        return "\n".join(self.log().rstrip().splitlines()[-_TAIL_LINES:])

    def stop(self) -> None:
        """SIGTERM to the whole group, a bounded wait, SIGKILL; then the same to those of its processes that left it.

        Raises ServerError when something survives even that.
        """
        group = self._process.pid
        relatives = kin.descendants(group)  # before the launcher ends: from then on they are nobody's children
        if self.exit_code() is not None:
            relatives = kin.given(self.api_key)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if warden.send(group, number) and not self._gone_within(self.stop_timeout_s):
                continue
            break
        else:
            raise self._survived([group])
        if left := kin.end(relatives, self.stop_timeout_s):
            raise self._survived([process.pid for process in left])
        self._warden.forget(group)

    def _survived(self, pids: Sequence[int]) -> ServerError:
        return ServerError(
            f"stopping the server of arm {self.arm} (pid {', '.join(map(str, pids))})",
            "it is still there after SIGTERM and SIGKILL",
            "it hangs in the kernel, often in a driver: see dmesg; the device is not free before it is gone",
        )

    def _gone_within(self, timeout_s: float) -> bool:
        began_s = time.monotonic()
        while time.monotonic() - began_s < timeout_s:
            self._process.poll()  # reaps the leader, else the group would never be empty
            if not warden.send(self._process.pid, 0):
                return True
            time.sleep(_pause_s(began_s))
        return False


def pick_port() -> int:
    """A loopback port that the kernel says is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def needs_certificates(url: str) -> bool:
    """Whether a client of this URL has to load the system's certificates, which takes as long as a small server."""
    return url.startswith("https://")


def new_api_key() -> str:
    """A random key: a request that reaches somebody else's server is refused instead of answered."""
    return secrets.token_hex(16)  # hexadecimal: a key that begins with a dash would be read as a flag


def spawn(
    arguments: Sequence[str],
    *,
    arm: str,
    port: int,
    api_key: str,
    environment: Mapping[str, str],
    log_path: Path,
    stop_timeout_s: float,
    warden: Warden,
) -> LaunchedServer:
    """Start the server in a process group of its own, its output in ``log_path``.

    Raises ServerError when the program cannot be started at all.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("wb") as log:
        try:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=dict(environment),
                process_group=0,
            )  # fmt: skip
        except OSError as error:
            raise ServerError(
                f"starting the server of arm {arm}: {_shown(arguments, api_key)}",
                str(error),
                "check --specdec-launcher and --llama-server",
            ) from None
    warden.watch(process.pid)
    return LaunchedServer(
        arm=arm,
        url=f"http://127.0.0.1:{port}",
        api_key=api_key,
        arguments=redacted(arguments, api_key),
        log_path=log_path,
        stop_timeout_s=stop_timeout_s,
        _process=process,
        _warden=warden,
    )


def wait_until_ready(
    server: LiveServer, timeout_s: float, tried: str, waits: Callable[[str], None] = lambda _words: None
) -> None:
    """Poll ``/health`` until it answers 200, then make sure by the key that the answer is this server's.

    ``waits`` is told what a server that answers says meanwhile. Raises ServerExitedError on any exit before that, code
    0 included, and NeverReadyError at the deadline, or soon where nobody listens for an attached server.
    """
    began_s = time.monotonic()
    said = "no answer"
    with httpx.Client(
        timeout=_HEALTH_TIMEOUT_S,
        trust_env=False,
        headers={"Connection": "close"},
        verify=needs_certificates(server.url),
    ) as client:
        while time.monotonic() - began_s < timeout_s:
            _refuse_exited(server, tried)
            try:
                answer = client.get(server.url + "/health")
            except httpx.HTTPError as error:
                said = f"{type(error).__name__}: {error}"
                if isinstance(error, httpx.ConnectError) and time.monotonic() - began_s > _ABSENT_S:
                    _refuse_absent(server, tried, error)
            else:
                if answer.status_code == httpx.codes.OK and not _is_a_stranger(client, server):
                    return
                said = f"HTTP {answer.status_code}: {answer.text[:200]}"
                waits(" ".join(f"{tried}: {said}".split()))
            time.sleep(_pause_s(began_s))
    raise NeverReadyError(
        tried,
        f"{server.url}/health did not answer 200 within {timeout_s:g} s; last: {said}",
        _REMEDY_OTHERS if isinstance(server, AttachedServer) else _REMEDY_OURS,
        server.log_tail(),
    )


def _refuse_absent(server: LiveServer, tried: str, error: httpx.ConnectError) -> None:
    """A server of ours may not listen yet; one that is said to run does by then, or never will."""
    if isinstance(server, AttachedServer):
        refused = "refused" in str(error)
        why = f"nothing listens at {server.url}" if refused else f"no connection to {server.url}: {error}"
        raise NeverReadyError(tried, why, "start it, or correct the URL")


def _pause_s(began_s: float) -> float:
    """Until the next look: a tenth of the wait so far, so that short waits end at once and long ones cost nothing."""
    return min(_MOST_POLL_S, max(_LEAST_POLL_S, 0.1 * (time.monotonic() - began_s)))


def _is_a_stranger(client: httpx.Client, server: LiveServer) -> bool:
    """Whether somebody else's server took the port before ours could: it does not know the key that we made up."""
    if not isinstance(server, LaunchedServer):
        return False
    try:
        answer = client.get(server.url + "/props", headers={"Authorization": f"Bearer {server.api_key}"})
    except httpx.HTTPError:
        return True
    return answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND)


def _refuse_exited(server: LiveServer, tried: str) -> None:
    code = server.exit_code()
    if code is None:
        return
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
    log = server.log_tail()
    why = f"it ended {how} before it was ready"
    if "couldn't bind" in log or "Address already in use" in log:
        remedy = "another process took the port in the moment between choosing and binding: run again"
        raise PortTakenError(tried, f"{why}: its port was already in use", remedy, log)
    raise ServerExitedError(tried, why, "run the same command by hand and look at its output", log, exit_code=code)


def _shown(arguments: Sequence[str], api_key: str) -> str:
    return " ".join(redacted(arguments, api_key))
