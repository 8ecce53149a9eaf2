"""The device lock, between real processes."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.device.lock import DeviceLocks, Holder, default_directory
from pytest_specdec.device.waiting import Waiting
from pytest_specdec.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "GPU-aaaa"
# Holds the device until its standard input ends; the child that it starts outlives it and must not keep the lock.
HOLDER = """
import subprocess, sys
from pathlib import Path
from pytest_specdec.device.lock import DeviceLocks
with DeviceLocks(Path(sys.argv[1]), run_id="run-1").hold(sys.argv[2]):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) if len(sys.argv) > 3 else None
    print(child.pid if child else "held", flush=True)
    sys.stdin.read()
"""
TRIER = """
import sys
from pathlib import Path
from pytest_specdec.device.lock import DeviceLocks
from pytest_specdec.errors import DeviceError
try:
    with DeviceLocks(Path(sys.argv[1]), timeout_s=0).hold(sys.argv[2]):
        print("held")
except DeviceError as error:
    print(error)
"""


@contextmanager
def holding(directory: Path, key: str = KEY, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process that holds the device, and the first line that it printed."""
    words = [sys.executable, "-c", HOLDER, str(directory), key, *more]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def tried_by_another(directory: Path, key: str = KEY) -> str:
    words = [sys.executable, "-c", TRIER, str(directory), key]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def test_the_second_waits_shows_who_holds_the_device_and_goes_on(tmp_path: Path) -> None:
    lines: list[str] = []
    with holding(tmp_path) as (process, _):

        def end_the_holder(line: str) -> None:
            lines.append(line)
            assert process.stdin is not None
            process.stdin.close()

        with DeviceLocks(tmp_path, timeout_s=30.0, waiting=Waiting(progress=end_the_holder)).hold(KEY):
            assert process.wait(10.0) == 0
    assert f"waiting for the device {KEY}, 0 s of at most 30 s: {KEY} is held by pid {process.pid}" in lines[0]
    assert f"on {socket.gethostname()} since {time.strftime('%Y')}-" in lines[0]
    assert "(0 min): " in lines[0]
    assert lines[0].endswith("[run run-1]")


def test_a_holder_that_is_killed_leaves_no_lock_even_while_its_child_lives(tmp_path: Path) -> None:
    killed_s: list[float] = []
    with holding(tmp_path, KEY, "with a child") as (process, child), ExitStack() as later:
        later.callback(os.kill, int(child), 9)

        def kill(_: str) -> None:
            killed_s.append(time.monotonic())
            process.kill()

        with DeviceLocks(tmp_path, timeout_s=30.0, waiting=Waiting(progress=kill)).hold(KEY):
            # Within a second on an idle machine; the bound only tells it from a wait for the child or the timeout.
            assert time.monotonic() - killed_s[0] < 15.0
            os.kill(int(child), 0)


def test_a_timeout_says_who_holds_the_device_and_what_to_do(tmp_path: Path) -> None:
    with holding(tmp_path) as (process, _), pytest.raises(DeviceError) as raised:  # noqa: SIM117
        with DeviceLocks(tmp_path, timeout_s=0.3).hold(KEY):
            pass
    assert raised.value.tried == f"lock the device {KEY} for 0 s"
    assert f"{KEY} is held by pid {process.pid} on " in raised.value.why
    assert "--specdec-lock-timeout" in raised.value.remedy
    assert tried_by_another(tmp_path) == "held"


def test_a_session_takes_its_own_device_again_and_keeps_it_until_the_outermost_end(tmp_path: Path) -> None:
    locks = DeviceLocks(tmp_path)
    with locks.hold(KEY):
        with locks.hold(KEY):
            assert locks.held == {KEY}
        assert "is held by pid" in tried_by_another(tmp_path)
    assert locks.held == frozenset()
    assert tried_by_another(tmp_path) == "held"


def test_an_exception_gives_the_device_back(tmp_path: Path) -> None:
    locks = DeviceLocks(tmp_path)
    with pytest.raises(KeyboardInterrupt), locks.hold(KEY):
        raise KeyboardInterrupt
    assert tried_by_another(tmp_path) == "held"


def test_devices_are_locked_apart_and_a_free_one_is_found(tmp_path: Path) -> None:
    with holding(tmp_path):
        locks = DeviceLocks(tmp_path, timeout_s=0.0)
        with locks.hold_any([KEY, "GPU-bbbb", "GPU-cccc"]) as key:
            assert key == "GPU-bbbb"
            with locks.hold_any(["GPU-cccc", "GPU-bbbb"]) as again:
                assert again == "GPU-bbbb"
        with pytest.raises(DeviceError, match="one of the devices GPU-aaaa, GPU-aaaa"), locks.hold_any([KEY, KEY]):
            pass


def test_the_holder_is_known_to_others_and_forgotten_afterwards(tmp_path: Path) -> None:
    locks = DeviceLocks(tmp_path / "locks")
    assert locks.holder(KEY) is None
    with holding(tmp_path / "locks") as (process, _):
        holder = locks.holder(KEY)
        assert holder is not None
        assert (holder.pid, holder.run_id, holder.is_gone) == (process.pid, "run-1", False)
        assert "DeviceLocks" in holder.command
    assert locks.holder(KEY) is None  # killed: its note is still there, its lock is not
    with locks.hold(KEY):
        mine = locks.holder(KEY)
        assert mine is not None
        assert mine.pid == os.getpid()
    assert (tmp_path / "locks" / f"{KEY}.holder.json").read_text() == ""


def test_a_note_that_is_older_than_the_lock_is_not_believed(tmp_path: Path) -> None:
    with holding(tmp_path):
        pass
    with (tmp_path / f"{KEY}.lock").open("a") as raw:
        fcntl.flock(raw, fcntl.LOCK_EX)
        assert "which has ended; another is about to leave its note" in tried_by_another(tmp_path)
        (tmp_path / f"{KEY}.holder.json").write_text('{"pid": 1, "comm')
        assert f"left no note (see: fuser {tmp_path / KEY}.lock)" in tried_by_another(tmp_path)


def test_every_user_may_use_the_files_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with DeviceLocks(tmp_path / "deep" / "locks").hold(KEY):
            modes = [stat.S_IMODE(p.stat().st_mode) for p in sorted((tmp_path / "deep" / "locks").iterdir())]
    finally:
        os.umask(before)
    assert modes == [0o666, 0o666]
    assert stat.S_IMODE((tmp_path / "deep" / "locks").stat().st_mode) == 0o777


def test_a_link_in_place_of_the_note_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("untouched")
    (tmp_path / f"{KEY}.holder.json").symlink_to(tmp_path / "precious")
    with DeviceLocks(tmp_path).hold(KEY):
        pass
    assert (tmp_path / "precious").read_text() == "untouched"


def test_a_directory_that_cannot_be_used_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "locks"):
        with pytest.raises(DeviceError) as raised, DeviceLocks(directory).hold(KEY):
            pass
        assert "--specdec-lock-dir" in raised.value.remedy


def test_a_file_system_without_flock_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that is a mere file would outlive its holder. There is no such file system here, so flock itself fails."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(DeviceError, match="Function not implemented"), DeviceLocks(tmp_path).hold(KEY):
        pass


def test_the_default_directory_is_the_same_for_every_user_and_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/somewhere/else")
    assert default_directory() == Path("/tmp/pytest-specdec-locks")


def test_a_note_survives_the_way_through_its_file() -> None:
    holder = Holder.of_this_process("run-1")
    assert Holder.from_json(holder.to_json()) == holder
    assert not holder.is_gone


USERS = (12_345, 23_456)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other users can reach, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


# Becomes the user only after it has read all its modules: the interpreter may lie where other users cannot read.
AS_USER = """
import os, sys, tempfile
from pathlib import Path
from pytest_specdec.device.lock import DeviceLocks
with tempfile.TemporaryDirectory() as scratch:
    with DeviceLocks(Path(scratch)).hold("any"):
        pass
uid = int(sys.argv.pop())
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
"""


def tried_as(uid: int, directory: Path) -> str:
    words = [sys.executable, "-c", AS_USER + TRIER, str(directory), KEY, str(uid)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
@pytest.mark.parametrize(("mode", "usable"), [(0o777, True), (0o1777, None), (0o755, False)])
def test_other_users_take_the_same_lock_or_are_told_why_not(
    open_directory: Path, mode: int, usable: bool | None
) -> None:
    """In a sticky directory some versions of filelock take another user's file and some refuse it."""
    locks = open_directory / "locks"
    locks.mkdir()
    locks.chmod(0o777)
    assert tried_as(USERS[0], locks) == "held"
    locks.chmod(mode)
    second = tried_as(USERS[1], locks)
    if usable:
        assert second == "held"
        assert (locks / f"{KEY}.lock").stat().st_uid == USERS[0]
        with DeviceLocks(locks).hold(KEY):
            assert f"held by pid {os.getpid()}" in tried_as(USERS[1], locks)
    else:
        told = "--specdec-lock-dir=DIR (mkdir -m 777 DIR)" in second
        assert told or (usable is None and second == "held")
