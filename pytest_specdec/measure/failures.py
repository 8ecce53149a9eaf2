"""What a server that failed says: of the build, of the machine, or only that the build cannot run the arm."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

from pytest_specdec.errors import (
    ClientError,
    DeviceError,
    MetricsMissingError,
    RequestRefusedError,
    ServerDiedError,
    ServerError,
    ServerExitedError,
    SpecdecError,
    StreamBrokenError,
    StreamOverrunError,
    StreamStalledError,
)
from pytest_specdec.records import BASE_BUILD, Arm, CellKey, Reason, Status

__all__ = ["CellFailedError", "failure_of"]

# A status and a reason for each way in which a server can fail us; the first that fits counts.
_FAILURES: tuple[tuple[type[SpecdecError], Status, Reason], ...] = (
    (ServerDiedError, Status.FAIL, Reason.SERVER_DIED),
    (RequestRefusedError, Status.FAIL, Reason.REQUEST_REFUSED),
    (StreamOverrunError, Status.FAIL, Reason.LENGTH_DIFFERS),
    (StreamStalledError, Status.VOID, Reason.SERVER_STALLED),
    (StreamBrokenError, Status.VOID, Reason.STREAM_BROKEN),
    (MetricsMissingError, Status.VOID, Reason.METRICS_MISSING),
    (ClientError, Status.VOID, Reason.SERVER_FAILED),
    (ServerError, Status.VOID, Reason.SERVER_FAILED),
    (DeviceError, Status.VOID, Reason.DEVICE_FAILED),
)

# What a program does to itself; every other signal is somebody else's.
_CRASHES = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)
_SIGNALS = frozenset(map(int, signal.Signals))
_SHELL_SAYS = 128  # and the signal's number, as does a container runtime

# In the words of llama.cpp's backends, the C++ library and the drivers. Pinned memory it can do without.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOf(?:Device|Host)?Memory|insufficient memory|std::bad_alloc"
    r"|(?:failed|unable) to allocate (?!.*\bpinned\b)",
    re.IGNORECASE,
)


class CellFailedError(Exception):
    """A cell that could not be measured; every claim that needs it is judged by this.

    ``status`` is NOT_JUDGED when the build cannot run the arm: the baseline decides whether that is a loss.
    """

    def __init__(self, key: CellKey, status: Status, reason: Reason, summary: str, detail: str) -> None:
        super().__init__(summary)
        self.key = key
        self.status = status
        self.reason = reason
        self.summary = summary
        self.detail = detail

    @classmethod
    def kept(cls, key: CellKey, failure: Mapping[str, Any]) -> CellFailedError:
        """The one that a run has left in its ledger: the ``failure`` of the cell's line."""
        return cls(key, Status(failure["status"]), Reason(failure["reason"]), failure["summary"], failure["detail"])


def failure_of(key: CellKey, arm: Arm, error: SpecdecError) -> CellFailedError:
    """What a failed start or request means for the claims that need this cell."""
    status, reason = next((status, reason) for kind, status, reason in _FAILURES if isinstance(error, kind))
    summary = error.why
    if isinstance(error, (ServerExitedError, ServerDiedError)):
        number = _signal(error.exit_code)
        shortage = _shortage(number, error.log_tail)
        if shortage is not None:
            status, reason = Status.VOID, Reason.SERVER_FAILED
            summary = f"{error.why}: {shortage}; make room, then go on with --specdec-resume"
        elif isinstance(error, ServerExitedError):
            # A base build that crashes is nothing that the new one did.
            if number in _CRASHES and key.build != BASE_BUILD:
                status, reason = Status.FAIL, Reason.SERVER_DIED
                summary = f"{error.why}: it crashed ({signal.Signals(number).name})"
            elif arm.drafted and (number is None or number in _CRASHES):
                status, reason = Status.NOT_JUDGED, Reason.ARM_UNAVAILABLE
                summary = f"the build cannot run the arm {arm.name}: {error.why}"
    return CellFailedError(key, status, reason, summary, str(error))


def _shortage(number: int | None, log_tail: str) -> str | None:
    """Why a server that ended did so for want of memory, where it did: this says nothing about the build."""
    line = next((line.strip() for line in log_tail.splitlines() if _OUT_OF_MEMORY.search(line)), None)
    if line is not None:
        return f"memory ran out ({line})"
    # Only the kernel does that, when memory runs out, or a person.
    return "it was killed (SIGKILL), as when the machine's memory runs out" if number == signal.SIGKILL else None


def _signal(exit_code: int) -> int | None:
    """The signal that ended it, directly or as a launcher reports it."""
    number = -exit_code if exit_code < 0 else exit_code - _SHELL_SAYS
    return number if number in _SIGNALS else None
