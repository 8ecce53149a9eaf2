"""However pytest ends, no server outlives it, and what was measured can be read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_specdec.measure.ledger import Ledger
from pytest_specdec.records import CellKey, Mode
from tests.support import PATIENCE_S, clean_environment, eventually, lines_of, new_run, servers_of, small_profile

CLAIM = """
import pytest

@pytest.mark.claim("long", source="t", arm="dflash2", on="mixed")
def test_long(cells, claim):
    claim.holds(cells["dflash2"].drafted > 0, measured="drafts", expected="drafts")
"""
KEY = CellKey(Mode.EXACT, "mixed", "dflash2")


def _heed_ctrl_c() -> None:
    """A shell starts what runs in its background deaf to it, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Interrupted:
    """A run in the middle of its measurement: several generations are kept, the server works."""

    def __init__(self, directory: Path, launcher: str = "") -> None:
        (directory / "test_it.py").write_text(CLAIM, "utf-8")
        profile = directory / "long.toml"
        profile.write_text(
            small_profile(directory).read_text("utf-8").replace("prompts = 2", "prompts = 2\ntimes = 400")
        )
        self.run = new_run(directory)
        launched = [f"--specdec-launcher={launcher}"] if launcher else []
        arguments = [f"--specdec-run-dir={self.run}", f"--specdec-profile={profile}", *launched]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments], cwd=directory, env=clean_environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=_heed_ctrl_c,
        )  # fmt: skip
        self.said = ""
        assert eventually(lambda: self.kept() >= 3 or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate()[0]
        assert servers_of(self.run)

    def kept(self) -> int:
        path = self.run / "generations.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def end(self, number: signal.Signals) -> int:
        """As the keyboard does: to the whole foreground group, in which the servers are not."""
        os.killpg(self.process.pid, number)
        self.said, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode


@pytest.fixture
def interrupted(tmp_path: Path) -> Iterator[Interrupted]:
    made = Interrupted(tmp_path)
    yield made
    made.process.kill()
    made.process.wait()


def assert_readable(run: Path) -> None:
    generations = Ledger(run).generations(KEY)
    assert len(generations) >= 3
    assert all(g.tokens and g.counters for g in generations)
    assert len(list(lines_of(run / "generations.jsonl"))) == len(generations)


def test_ctrl_c_stops_the_servers_and_keeps_the_ledger(interrupted: Interrupted) -> None:
    assert interrupted.end(signal.SIGINT) == pytest.ExitCode.INTERRUPTED
    assert not servers_of(interrupted.run)
    assert_readable(interrupted.run)
    assert not (interrupted.run / "cells.jsonl").exists(), "what was under way has not failed"
    assert "KeyboardInterrupt" in interrupted.said
    assert "Traceback" not in interrupted.said
    assert "interrupted (exit status 2): 1 selected claim not reached or not finished" in interrupted.said
    assert f"go on with it: the same command and --specdec-resume={interrupted.run.name}" in interrupted.said
    report = [sys.executable, "-m", "pytest_specdec", "report", interrupted.run.name]
    again = subprocess.run(report, cwd=interrupted.run.parent, capture_output=True, text=True, check=True).stdout
    assert again.splitlines()[-2:] == [
        "interrupted (exit status 2): 1 selected claim not reached or not finished",
        f"go on with it: the same command and --specdec-resume={interrupted.run.name}",
    ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_pytest_leaves_no_server(interrupted: Interrupted, number: signal.Signals) -> None:
    assert interrupted.end(number) == -number
    assert eventually(lambda: not servers_of(interrupted.run))
    assert_readable(interrupted.run)


def test_nor_does_it_where_a_launcher_keeps_the_server_as_its_child(tmp_path: Path) -> None:
    launcher = tmp_path / "launcher.sh"
    launcher.write_text('#!/bin/sh\n"$@"\n')
    launcher.chmod(0o755)
    interrupted = Interrupted(tmp_path, str(launcher))
    assert len(servers_of(interrupted.run)) == 2
    interrupted.end(signal.SIGKILL)
    assert eventually(lambda: not servers_of(interrupted.run))
