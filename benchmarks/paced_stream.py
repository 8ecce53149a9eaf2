"""Sends a recorded answer again and again, event by event at a fixed rate, in a process of its own.

python paced_stream.py RECORDING EVENTS_PER_S    prints the port that it listens on, and serves until it is ended
"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

EVENT_END = b"\n\n\r\n"  # the blank line that ends an event, and the end of its HTTP chunk


def read_request(connection: socket.socket) -> None:
    """All of it: a connection that is closed with something unread breaks off the answer."""
    with connection.makefile("rb") as request:
        length = 0
        while (line := request.readline().lower().strip()) != b"":
            name, _, value = line.partition(b":")
            if name == b"content-length":
                length = int(value)
        request.read(length)


def replay(recording: bytes, events_per_s: float) -> None:
    """Answer one request after the other with these bytes. Each event goes out at its own time since the first."""
    parts = [part + EVENT_END for part in recording.split(EVENT_END)]
    parts[-1] = parts[-1].removesuffix(EVENT_END)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201  the one thing that its starter must know
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                read_request(connection)
                began_s = time.perf_counter()
                for number, part in enumerate(parts):
                    time.sleep(max(0.0, began_s + number / events_per_s - time.perf_counter()))
                    connection.sendall(part)


if __name__ == "__main__":
    replay(Path(sys.argv[1]).read_bytes(), float(sys.argv[2]))
