"""Ends the servers of a run whose pytest is gone, however it went.

One small process for a run. It reads ``+PGID`` and ``-PGID`` lines from its standard input, a pipe whose other end only
pytest holds. When that end closes, by an ordinary end or by ``kill -9``, every process group still on the list gets
SIGTERM, some seconds, and SIGKILL. Runs without site-packages and imports nothing of the project, so it starts in
milliseconds; it works where there is no parent-death signal, and for launchers that leave a child of their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

GRACE_S = 5.0


def main() -> None:
    """Read until the other end closes, then end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    end(groups)


def end(groups: set[int]) -> None:
    """SIGTERM to every group, a bounded wait, SIGKILL to those that are left."""
    for group in groups:
        send(group, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while any(send(group, 0) for group in groups) and time.monotonic() < deadline:
        time.sleep(0.05)
    for group in groups:
        send(group, signal.SIGKILL)


def send(group: int, number: int) -> bool:
    """Whether the group still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


if __name__ == "__main__":
    main()
