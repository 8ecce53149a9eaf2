"""Which process is which: a process id alone may have passed to another process."""

from __future__ import annotations

from pathlib import Path

__all__ = ["describe", "is_alive", "shortened", "start_mark"]

_WORDS_SHOWN = 100


def start_mark(pid: int) -> str | None:
    """When ``pid`` started, as a text to compare with another mark of this machine; None when there is no such process.

    On Linux it is the kernel's tick count, which no change of the wall clock moves. A zombie counts as gone: it holds
    nothing any more.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return _start_mark_by_psutil(pid)
    state, ticks = fields[0], fields[19]  # fields 3 and 22 of proc(5); the name before them may hold spaces
    return None if state in "ZX" else ticks


def is_alive(pid: int, mark: str) -> bool:
    """Whether the very process that had ``mark`` still runs."""
    return start_mark(pid) == mark


def describe(pid: int) -> str:
    """``pid 4711 (user: command line)``, or what can be told of it."""
    import psutil

    try:
        process = psutil.Process(pid)
        words = " ".join(process.cmdline()) or process.name()
        return f"pid {pid} ({process.username()}: {shortened(words)})"
    except psutil.NoSuchProcess:
        return f"pid {pid} (not visible from here: in another container, or just ended)"
    except psutil.AccessDenied:
        return f"pid {pid} (another user's)"


def shortened(words: str) -> str:
    """A command line that fits on one line of a screen."""
    words = " ".join(words.split())
    return words if len(words) <= _WORDS_SHOWN else words[: _WORDS_SHOWN - 1] + "…"


def _start_mark_by_psutil(pid: int) -> str | None:
    if Path("/proc/self").is_dir():
        return None
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else str(process.create_time())
    except psutil.Error:
        return None
