"""Every error that a user can meet: what was tried, why it failed, and what to do about it."""

from __future__ import annotations

__all__ = [
    "AccessRefusedError",
    "BaselineError",
    "BuildError",
    "ClientError",
    "DeviceError",
    "LedgerError",
    "MetricsMissingError",
    "ModelError",
    "NeverReadyError",
    "PortTakenError",
    "ProfileError",
    "RequestRefusedError",
    "ServerDiedError",
    "ServerError",
    "ServerExitedError",
    "SpecdecError",
    "StreamBrokenError",
    "StreamOverrunError",
    "StreamStalledError",
    "SuiteError",
]


class SpecdecError(Exception):
    """A failure that is not a verdict.

    ``tried`` says what was attempted, ``why`` what went wrong, ``remedy`` the next action for the reader.
    ``log_tail`` holds the last lines of the server's log where there is a server, and ``arm`` whose it is where that is
    known.
    """

    arm: str | None = None

    def __init__(self, tried: str, why: str, remedy: str, log_tail: str = "") -> None:
        super().__init__(tried, why, remedy, log_tail)
        self.tried = tried
        self.why = why
        self.remedy = remedy
        self.log_tail = log_tail

    def __str__(self) -> str:
        lines = [self.tried, f"  why:    {_indent(self.why)}", f"  remedy: {_indent(self.remedy)}"]
        if self.log_tail.strip():
            lines += ["  the end of the server's log:", *(f"    | {line}" for line in self.log_tail.splitlines())]
        return "\n".join(lines)


def _indent(text: str) -> str:
    return text.replace("\n", "\n          ")


class SuiteError(SpecdecError):
    """A claim was declared or used wrongly: a mistake in a test file."""


class ProfileError(SpecdecError):
    """A profile, an arm or a workload that cannot be read or does not exist."""


class BaselineError(SpecdecError):
    """A baseline file that cannot be trusted or written."""


class ModelError(SpecdecError):
    """A model file that is missing, damaged or not the one that was declared."""


class BuildError(SpecdecError):
    """No usable llama-server."""


class ServerError(SpecdecError):
    """A server that did not start, did not stop, or cannot be identified."""


class ServerExitedError(ServerError):
    """The server ended before it was ready; ``exit_code`` is negative for a signal."""

    def __init__(self, tried: str, why: str, remedy: str, log_tail: str = "", *, exit_code: int = 0) -> None:
        super().__init__(tried, why, remedy, log_tail)
        self.exit_code = exit_code


class NeverReadyError(ServerError):
    """The server runs but its ``/health`` never turned good."""


class PortTakenError(ServerError):
    """The server could not listen; this says nothing about the build."""


class ClientError(SpecdecError):
    """A request that was answered with anything but the promised result."""


class RequestRefusedError(ClientError):
    """An answer with an error status, or an error event in the stream."""


class AccessRefusedError(ClientError):
    """The server wants another key, or is not ready to answer."""


class StreamBrokenError(ClientError):
    """A stream that ended early or said something unreadable."""


class StreamOverrunError(ClientError):
    """A stream that went on far beyond the tokens that were asked for."""


class StreamStalledError(ClientError):
    """A stream that brought no event any more while the server still ran."""


class ServerDiedError(ClientError):
    """The server's process ended while a request was in flight; ``exit_code`` is negative for a signal."""

    def __init__(self, tried: str, why: str, remedy: str, log_tail: str = "", *, exit_code: int = 0) -> None:
        super().__init__(tried, why, remedy, log_tail)
        self.exit_code = exit_code


class MetricsMissingError(ClientError):
    """``/metrics`` is off, unreadable, or lacks the counters of speculative decoding."""


class DeviceError(SpecdecError):
    """A device that cannot be locked, read or shared."""


class LedgerError(SpecdecError):
    """A run directory that cannot be read or written."""
