"""Under pytest-xdist the verdicts are the same, and each cell is measured once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_specdec.integrations.xdist import pytest_configure_node
from tests.support import gate, lines_of, new_run, results_of, servers_of, small_profile

CLAIMS = """
import pytest
from pytest_specdec.records import Finding, Reason, Status

@pytest.mark.parametrize("number", range(3))
@pytest.mark.claim("drafted", source="t", arm="dflash2", over="base", on="mixed", kind="exact")
def test_drafted(number, cells, claim):
    claim.holds(cells["dflash2"].drafted > 0, measured="drafts", expected="drafts")
    claim.holds(cells["base"].drafted == 0, measured="none", expected="none")

@pytest.mark.claim("wide", source="t", arm="dflash2@3", on="mixed")
def test_wide(cells, claim):
    width = cells["dflash2@3"].draft_width
    claim.holds(width > 3, measured=f"{width:.2f}", expected="more than 3", otherwise=Reason.WIDTH_DIFFERS)

@pytest.mark.claim("void", source="t", arm="base", on="mixed")
def test_void(claim):
    claim.judge(Finding(Status.VOID, Reason.THROTTLED, "hot", "cool"))

@pytest.mark.claim("record", source="t", arm="dflash2", on="mixed")
def test_record(cells, baseline):
    baseline.holds(cells["dflash2"].tokens_per_cycle, unit="tokens per cycle")
"""


def run_suite(directory: Path, *arguments: str) -> tuple[Path, list[str], int]:
    directory.mkdir()
    (directory / "test_it.py").write_text(CLAIMS, "utf-8")
    run = new_run(directory)
    done = gate(
        f"--specdec-run-dir={run}", f"--specdec-profile={small_profile(directory)}", "--specdec-baselines=stored",
        "--specdec-update-baseline", "-v", *arguments, cwd=directory,
    )  # fmt: skip
    assert "INTERNALERROR" not in done.stdout + done.stderr
    return run, done.stdout.splitlines(), done.returncode


def test_the_verdicts_are_the_same_and_each_cell_is_measured_once(tmp_path: Path) -> None:
    alone, _, code_alone = run_suite(tmp_path / "alone")
    shared, lines, code_shared = run_suite(tmp_path / "shared", "-n", "2")
    assert code_alone == code_shared == pytest.ExitCode.TESTS_FAILED

    def verdicts(run: Path) -> dict[str, tuple[str, str, str]]:
        return {name: (row["status"], row["reason"], row["measured"]) for name, row in results_of(run).items()}

    assert verdicts(alone) == verdicts(shared)
    assert verdicts(alone)["wide"][:2] == ("fail", "width_differs")
    for run in (alone, shared):
        cells = Counter(row["cell"]["arm"] for row in lines_of(run / "cells.jsonl"))
        assert cells == {"base": 1, "dflash2": 1, "dflash2@3": 1}
        assert len(list((run / "logs").glob("*.log"))) == 3
        assert not servers_of(run)
    screen = pytest.LineMatcher(lines)
    screen.fnmatch_lines_random(["*VOID*test_it.py::test_void*", "VOID (throttled): void *", "again: pytest *"])
    screen.fnmatch_lines(["specdec: build *", "specdec: profile small, device cpu, evidence in *"])
    assert sum(line.startswith("specdec: build") for line in lines) == 1
    screen.fnmatch_lines(["recorded in *cpu.json:", "*record: *"])  # a worker did it, the controller tells it
    assert (tmp_path / "shared" / "stored" / "small" / "cpu.json").exists()


def test_the_workers_go_on_with_the_run_that_was_named(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfigure("--specdec-resume=begun")
    node = SimpleNamespace(config=config, workerinput={})
    pytest_configure_node(node)
    assert node.workerinput["specdec_run_dir"] == "begun"


def test_a_mistake_is_told_once_and_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(CLAIMS, "utf-8")
    missing = small_profile(tmp_path, '[models]\ntarget = "nowhere.gguf"\n')
    done = gate(f"--specdec-profile={missing}", "-n", "2", cwd=tmp_path)
    assert done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    told = done.stdout + done.stderr
    assert "looking for the model 'target' (nowhere.gguf)" in told
    assert "Traceback" not in told
    assert len(told.splitlines()) < 40


SKIPPED = """
import pytest

@pytest.mark.claim("skipped", source="t", arm="base", on="mixed")
def test_skipped(claim):
    pytest.skip("not today")
"""
ONE = """
import pytest

@pytest.mark.claim("one", source="t", arm="base", on="mixed")
def test_one(cells, claim):
    claim.holds(cells["base"].drafted == 0, measured="none", expected="none")
"""
DIES_ONCE = """
import os, pathlib, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    mark = pathlib.Path("died")
    if hasattr(session.config, "workerinput") and not mark.exists():
        mark.touch()
        os._exit(9)
"""


NEVER_STOPS = """
from pytest_specdec.errors import ServerError
from pytest_specdec.session import Run

def close(run, end_servers=Run._end_servers):
    end_servers(run)
    raise ServerError("stopping the server of arm base", "it is still there", "see dmesg")

Run._end_servers = close
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "worker"])
def test_a_run_whose_claims_are_all_skipped_is_not_green(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(SKIPPED, "utf-8")
    done = gate(f"--specdec-profile={small_profile(tmp_path)}", *workers, cwd=tmp_path)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout


def test_a_worker_that_dies_at_its_end_is_not_green(tmp_path: Path) -> None:
    """It may have had something to record."""
    (tmp_path / "test_it.py").write_text(ONE, "utf-8")
    (tmp_path / "conftest.py").write_text(DIES_ONCE, "utf-8")
    run = new_run(tmp_path)
    profile = small_profile(tmp_path)
    done = gate(f"--specdec-profile={profile}", f"--specdec-run-dir={run}", "-n", "1", cwd=tmp_path)
    assert (tmp_path / "died").exists()
    assert results_of(run)["one"]["status"] == "pass", done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "the worker gw0 died before it had told all" in done.stdout


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "worker"])
def test_a_server_that_cannot_be_stopped_at_the_end_is_told_and_not_green(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    (tmp_path / "test_it.py").write_text(ONE, "utf-8")
    (tmp_path / "conftest.py").write_text(NEVER_STOPS, "utf-8")
    done = gate(f"--specdec-profile={small_profile(tmp_path)}", *workers, cwd=tmp_path)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "1 claim: 1 pass" in done.stdout
    assert "stopping the server of arm base" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
