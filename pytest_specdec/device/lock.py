"""One lock per device, across the processes and users of a machine.

The lock is flock on a file: the kernel drops it with the process that held it, so a holder that died leaves no lock.
Nobody breaks it by force. Who holds it stands in a note beside it, which only informs and decides nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import stat
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec.device.processes import is_alive, shortened, start_mark
from pytest_specdec.device.waiting import Waiting
from pytest_specdec.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from filelock import FileLock

    from pytest_specdec.records import Json

__all__ = ["DeviceLocks", "Holder", "default_directory"]

DEFAULT_TIMEOUT_S = 3600.0
_POLL_S = 0.1
_FOR_ALL_USERS = 0o666
_OTHER_DIRECTORY = "name a directory that all users of the machine can write: --specdec-lock-dir=DIR (mkdir -m 777 DIR)"


def default_directory() -> Path:
    """Where the locks of this machine lie.

    A fixed path rather than ``$TMPDIR``: two users, or two jobs, with a temporary directory each must meet here.
    """
    if os.name == "posix":
        return Path("/tmp/pytest-specdec-locks")
    import tempfile

    return Path(tempfile.gettempdir(), "pytest-specdec-locks")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a device. ``since_s`` is Unix time; ``mark`` tells the process from a later one with its id."""

    pid: int
    command: str
    host: str
    since_s: float
    run_id: str
    mark: str | None

    @property
    def is_gone(self) -> bool:
        """Whether this process of this machine has ended, so that the note is older than the lock."""
        return self.host == socket.gethostname() and self.mark is not None and not is_alive(self.pid, self.mark)

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since_s).astimezone()
        minutes = max(0.0, time.time() - self.since_s) / 60
        run = f" [run {self.run_id}]" if self.run_id else ""
        return (
            f"pid {self.pid} on {self.host} since {since:%Y-%m-%d %H:%M:%S} ({minutes:.0f} min): "
            f"{shortened(self.command)}{run}"
        )

    @classmethod
    def of_this_process(cls, run_id: str) -> Holder:
        """The note that this process leaves."""
        words = sys.orig_argv if sys.argv[:1] in ([], [""], ["-c"], ["-m"]) else sys.argv
        pid = os.getpid()
        return cls(pid, shlex.join(words), socket.gethostname(), time.time(), run_id, start_mark(pid))

    @classmethod
    def from_json(cls, fields: Mapping[str, Json]) -> Holder:
        """Raises KeyError, TypeError or ValueError on anything that is not such a note."""
        mark = fields["mark"]
        return cls(
            pid=int(fields["pid"]),
            command=str(fields["command"]),
            host=str(fields["host"]),
            since_s=float(fields["since_s"]),
            run_id=str(fields["run_id"]),
            mark=None if mark is None else str(mark),
        )

    def to_json(self) -> dict[str, Json]:
        """The inverse of ``from_json``."""
        return {name: getattr(self, name) for name in ("pid", "command", "host", "since_s", "run_id", "mark")}


class DeviceLocks:
    """The locks of one session, which may take one that it holds again. For use by one thread."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        run_id: str = "",
        timeout_s: float = DEFAULT_TIMEOUT_S,
        waiting: Waiting | None = None,
    ) -> None:
        self._directory = directory or default_directory()
        self._run_id = run_id
        self._timeout_s = timeout_s
        self._waiting = waiting or Waiting()
        self._held: dict[str, tuple[FileLock, int]] = {}

    @property
    def held(self) -> frozenset[str]:
        """The devices that this session holds now."""
        return frozenset(self._held)

    @contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Hold the device ``key``, after its holder if there is one.

        Raises DeviceError when the lock cannot be had within the timeout, or not at all in this directory.
        """
        with self.hold_any([key]):
            yield

    @contextmanager
    def hold_any(self, keys: Sequence[str]) -> Iterator[str]:
        """Hold the first of the devices that is free, and yield its key; one that is already held comes first."""
        key = self._take(sorted(keys, key=lambda k: k not in self._held))
        try:
            yield key
        finally:
            self._give_back(key)

    def holder(self, key: str) -> Holder | None:
        """Who holds the device now; None when nobody does. The lock is tried for a moment, not taken."""
        if key in self._held:
            return self._noted(key)
        if not self._directory.is_dir():
            return None
        lock = self._try_lock(key)
        if lock is None:
            return self._noted(key) or Holder(0, "unknown", "unknown", time.time(), "", None)
        lock.release()
        return None

    def _take(self, keys: Sequence[str]) -> str:
        self._prepare_directory()
        taken: list[str] = []

        def step(waited_s: float) -> str | None:
            for key in keys:
                if self._try_take(key):
                    taken.append(key)
                    return None
            return (
                f"waiting for {_named(keys)}, {waited_s:.0f} s of at most {self._timeout_s:.0f} s: "
                f"{self._holders_text(keys)}"
            )

        waited = self._waiting.until(step, limit_s=self._timeout_s, every_s=_POLL_S)
        if not taken:
            raise DeviceError(
                tried=f"lock {_named(keys)} for {waited.seconds:.0f} s",
                why=self._holders_text(keys),
                remedy="wait for that run or end it yourself, raise --specdec-lock-timeout, "
                "or take another device with --specdec-device",
            )
        return taken[0]

    def _try_take(self, key: str) -> bool:
        if key in self._held:
            lock, count = self._held[key]
            self._held[key] = (lock, count + 1)
            return True
        taken = self._try_lock(key)
        if taken is None:
            return False
        self._held[key] = (taken, 1)
        self._note(key, json.dumps(Holder.of_this_process(self._run_id).to_json()))
        return True

    def _give_back(self, key: str) -> None:
        lock, count = self._held[key]
        if count > 1:
            self._held[key] = (lock, count - 1)
            return
        del self._held[key]
        self._note(key, "")
        lock.release()

    def _try_lock(self, key: str) -> FileLock | None:
        from filelock import FileLock, Timeout

        # Without the soft fallback: on a file system that lacks flock, a lock that is a mere file outlives its holder.
        path = self._path(key, "lock")
        lock = FileLock(path, mode=_FOR_ALL_USERS, thread_local=False, fallback_to_soft=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        except (OSError, NotImplementedError) as error:
            raise DeviceError(tried=f"lock {path}", why=_why(error), remedy=_OTHER_DIRECTORY) from error
        return lock

    def _prepare_directory(self) -> None:
        try:
            self._directory.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self._directory.mkdir()
                # No sticky bit: in such a directory filelock refuses the files of other users, and some kernels do.
                self._directory.chmod(0o777)
            usable = self._directory.is_dir() and os.access(self._directory, os.W_OK | os.X_OK)
        except OSError as error:
            raise DeviceError(f"make the lock directory {self._directory}", _why(error), _OTHER_DIRECTORY) from error
        if not usable:
            why = "this user cannot write there" if self._directory.is_dir() else "it is not a directory"
            raise DeviceError(f"use the lock directory {self._directory}", why, _OTHER_DIRECTORY)

    def _holders_text(self, keys: Sequence[str]) -> str:
        lines = []
        for key in keys:
            noted = self._noted(key)
            if noted is None:
                lines.append(f"{key} is held by a process that left no note (see: fuser {self._path(key, 'lock')})")
            elif noted.is_gone:
                lines.append(f"{key} is held, but not by {noted}, which has ended; another is about to leave its note")
            else:
                lines.append(f"{key} is held by {noted}")
        return "\n".join(lines)

    def _noted(self, key: str) -> Holder | None:
        try:
            return Holder.from_json(json.loads(self._path(key, "holder.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError):
            return None  # not written yet, half written or emptied: the next look will tell

    def _note(self, key: str, text: str) -> None:
        # The note only informs: a file that cannot be written must not keep a session from a lock that it holds.
        with suppress(OSError):
            _overwrite(self._path(key, "holder.json"), text)

    def _path(self, key: str, suffix: str) -> Path:
        return self._directory / f"{re.sub(r'[^A-Za-z0-9._-]', '_', key)}.{suffix}"


def _overwrite(path: Path, text: str) -> None:
    """Write in place, since the file may be another user's, and through no link, since the directory is everyone's."""
    no_link = getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, os.O_WRONLY | no_link)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_WRONLY | no_link | os.O_CREAT | os.O_EXCL, _FOR_ALL_USERS)
    with os.fdopen(descriptor, "w", encoding="utf-8") as note:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return
        with suppress(PermissionError):  # another user's file has this mode already
            os.fchmod(descriptor, _FOR_ALL_USERS)
        note.truncate(0)
        note.write(text)


def _named(keys: Sequence[str]) -> str:
    return f"the device {keys[0]}" if len(keys) == 1 else "one of the devices " + ", ".join(keys)


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
