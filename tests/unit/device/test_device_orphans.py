"""Servers that outlived their run, as real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_specdec.device import orphans as module
from pytest_specdec.device.orphans import Orphan, RunMark, end_orphans, find_orphans, run_environment
from pytest_specdec.device.processes import describe, is_alive, start_mark

if TYPE_CHECKING:
    from collections.abc import Iterator

# They say when they are up: before that, a process may not have its own command line and environment yet.
SLEEP = "import time; print('up', flush=True); time.sleep(60)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
# A run that starts a server as a session does, says its process id, and waits.
RUN = """
import os, subprocess, sys
from pytest_specdec.device.orphans import run_environment
server = subprocess.Popen([sys.executable, "-c", sys.argv[2]], env=os.environ | run_environment(sys.argv[1]))
print(server.pid, flush=True)
sys.stdin.read()
"""


class Run:
    """A run in a process of its own, and its server."""

    def __init__(self, server: str = SLEEP) -> None:
        self.id = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, self.id, server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        said = {self.process.stdout.readline().strip() for _ in range(2)}
        self.server = psutil.Process(int(next(iter(said - {"up"}))))

    def die(self) -> None:
        """Die as by ``kill -9``: the server stays."""
        self.process.kill()
        self.process.wait()

    def orphans(self) -> list[Orphan]:
        """What is found of this run."""
        return [orphan for orphan in find_orphans() if orphan.run_id == self.id]

    def clean_up(self) -> None:
        """End what is left."""
        with self.process:
            self.process.kill()
        with suppress(psutil.NoSuchProcess):
            self.server.kill()


@pytest.fixture
def run() -> Iterator[Run]:
    made = Run()
    yield made
    made.clean_up()


def test_the_server_of_a_killed_run_is_found_and_ended(run: Run) -> None:
    run.die()
    (orphan,) = run.orphans()
    assert orphan.pid == run.server.pid
    assert f"pid {orphan.pid} of run {run.id} (" in str(orphan)
    end_orphans([orphan])
    assert run.orphans() == []
    assert start_mark(orphan.pid) != orphan.mark


def test_the_server_of_a_run_that_lives_is_no_orphan(run: Run) -> None:
    assert run.orphans() == []
    assert run.server.is_running()


def test_a_process_that_does_not_say_who_started_it_is_never_an_orphan() -> None:
    environment = os.environ | {"SPECDEC_RUN_ID": "20260801-somebody"}
    with subprocess.Popen([sys.executable, "-c", SLEEP], env=environment, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"up\n"
            assert other.pid not in {orphan.pid for orphan in find_orphans()}
        finally:
            other.kill()


def test_a_process_id_that_has_passed_to_another_is_left_alone(run: Run) -> None:
    run.die()
    (orphan,) = run.orphans()
    end_orphans([replace(orphan, mark="1")])
    assert run.server.is_running()
    end_orphans([orphan])


def test_a_server_that_ignores_the_polite_request_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ASK_S", 0.2)
    run = Run(server=STUBBORN)
    try:
        run.die()
        (orphan,) = run.orphans()
        end_orphans([orphan])
        assert not is_alive(orphan.pid, orphan.mark)
    finally:
        run.clean_up()


@pytest.mark.parametrize("text", ["", "run", "run:", "run:12", "run:x:1", ":12:1", "run:12:"])
def test_other_texts_are_no_mark(text: str) -> None:
    assert RunMark.parse(text) is None


def test_the_mark_of_this_process_survives_the_environment() -> None:
    mark = RunMark.parse(run_environment("run-1")["SPECDEC_RUN_ID"])
    assert mark == RunMark("run-1", os.getpid(), start_mark(os.getpid()) or "")
    assert mark.run_lives
    assert not replace(mark, owner_mark="1").run_lives


def test_a_zombie_counts_as_gone_and_others_are_described() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        mark = start_mark(process.pid)
        assert mark is not None
        assert is_alive(process.pid, mark)
        assert SLEEP in describe(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # until it has ended, without reaping it
        assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
        assert not is_alive(process.pid, mark)
    assert "not visible from here" in describe(process.pid)
