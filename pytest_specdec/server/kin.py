"""The processes of a server that are not in the group it was started in: a launcher may open sessions of its own."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psutil

__all__ = ["descendants", "end", "given"]

_POLL_S = 0.02


def descendants(launcher_pid: int) -> list[psutil.Process]:
    """All that a launcher that lives has started. psutil tells each from a later process with its id."""
    import psutil

    try:
        return psutil.Process(launcher_pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def given(api_key: str) -> list[psutil.Process]:
    """Processes with this server's own key on their command line: the trace that a launcher that is gone has left."""
    import psutil

    return [process for process in psutil.process_iter() if _was_given(process, api_key)]


def end(processes: Sequence[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """SIGTERM to each that still lives, a bounded wait, SIGKILL, and another wait. What lives even then."""
    import psutil

    alive = [process for process in processes if _lives(process)]
    for ask in (psutil.Process.terminate, psutil.Process.kill):
        for process in alive:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                ask(process)
        deadline = time.monotonic() + timeout_s
        while (alive := [process for process in alive if _lives(process)]) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    return alive


def _was_given(process: psutil.Process, api_key: str) -> bool:
    import psutil

    try:
        return api_key in process.cmdline()
    except psutil.Error:
        return False  # ended meanwhile, or not ours to read


def _lives(process: psutil.Process) -> bool:
    """A zombie does not: where nobody reaps orphans it stays."""
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
