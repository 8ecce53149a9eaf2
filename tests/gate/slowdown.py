"""A llama-server that is slowed down: SIGSTOP and SIGCONT on a duty cycle of short period.

The server's own timings show it, since its clock goes on while it is stopped; a proxy would slow the client alone.
``python slowdown.py SHARE FILE COMMAND …`` becomes the command and leaves a process beside it that stops and continues
it, and writes to FILE what share of the time it was stopped. SHARE is one of

- ``0.1``: constant;
- ``grow:0:0.5:40``: from 0 to 0.5 in the first 40 seconds since the first server of this FILE was started;
- ``wave:0.3:8``: 0.3 in every second half of 8 seconds, likewise;
- ``second:0.2``: 0.2 in every second server that is started.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["wrapper"]

PERIOD_S = 0.01  # shorter than a decode step of the inflated target
_ASKED = ("--help", "--version")


def wrapper(directory: Path, share: str, command: str) -> Path:
    """An executable that runs ``command`` slowed down; what was achieved is appended to ``achieved`` beside it."""
    path = directory / "slowed-llama-server"
    words = shlex.join([sys.executable, __file__, share, str(directory / "achieved")])
    path.write_text(f'#!/bin/sh\nexec {words} {command} "$@"\n', "utf-8")
    path.chmod(0o755)
    return path


def main(share: str, told: str, command: list[str]) -> None:
    """Become the command, with the one who stops it as a child in a session of its own."""
    if not set(_ASKED) & set(command):
        server, share_at = os.getpid(), _course(share, Path(told + ".starts"))
        if os.fork() == 0:
            os.setsid()
            _stop_and_go(server, share_at, Path(told))
            os._exit(0)
    os.execvp(command[0], command)


def _course(share: str, starts: Path) -> Callable[[], float]:
    """The share that is due now; all servers of one FILE have one clock."""
    with starts.open("a+", encoding="utf-8") as handle:
        handle.write(f"{time.time()}\n")
        handle.seek(0)
        times = [float(line) for line in handle]
    kind, *rest = share.split(":")
    match kind, [float(word) for word in rest]:
        case "grow", [first, last, seconds]:
            return lambda: first + (last - first) * min(1.0, (time.time() - times[0]) / seconds)
        case "wave", [high, seconds]:
            return lambda: high if (time.time() - times[0]) % seconds > seconds / 2 else 0.0
        case "second", [high]:
            return lambda: high if len(times) % 2 == 0 else 0.0
    return lambda: float(share)


def _stop_and_go(server: int, share_at: Callable[[], float], told: Path) -> None:
    """Until the server is gone. A pause is what the share still lacks, so that late wake-ups are made up for."""
    began = last = time.perf_counter()
    stopped = due = 0.0
    try:
        while True:
            now, share = time.perf_counter(), share_at()
            due += share * (now - last)
            last = now
            if due > stopped:
                stopped += _pause(server, min(due - stopped, PERIOD_S))
            time.sleep(PERIOD_S * (1 - share))
            os.kill(server, 0)
    except ProcessLookupError:
        with told.open("a", encoding="utf-8") as handle:
            handle.write(f"{stopped / (last - began):.4f}\n")


def _pause(server: int, seconds: float) -> float:
    began = time.perf_counter()
    os.kill(server, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(server, signal.SIGCONT)
    return time.perf_counter() - began


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
