"""Exact cells are measured beside the claims that are judged, and never beside what is timed."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from tests.support import gate, lines_of, new_run, results_of, speed_profile

WORKLOAD = """
[workloads.mixed]
prompts = 10
n_predict = 48
"""
CLAIMS = """
import pytest

@pytest.mark.claim("first", source="t", arm="base", on="mixed")
def test_first(cells, claim):
    claim.holds(cells["base"].drafted == 0, measured="none", expected="none")

@pytest.mark.claim("timed", source="t", arms=["base"], on="code", kind="speed")
def test_timed(cells, claim):
    claim.holds(cells["base"].drafted == 0, measured="none", expected="none")

@pytest.mark.claim("drafts", source="t", each=["dflash2", "draft", "ngram", "dflash1"], on="mixed", kind="exact")
def test_drafts(arm, cells, claim):
    claim.holds(cells[arm].drafted > 0, measured="drafts", expected="drafts")
"""
Times = dict[str, list[tuple[int, int]]]  # by cell, when its generations began and ended, ns


def _times(run: Path, mode: str) -> Times:
    found: Times = {}
    for row in lines_of(run / "generations.jsonl"):
        if row["cell"]["mode"] == mode:
            found.setdefault(row["cell"]["arm"], []).append((row["started_ns"], row["ended_ns"]))
    return found


def _together(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> bool:
    """Whether the two were under way at one time: from the first request to the last reply."""
    return min(b for _, b in (one[-1], other[-1])) > max(a for a, _ in (one[0], other[0]))


def _run(directory: Path, *arguments: str) -> Path:
    (directory / "test_it.py").write_text(CLAIMS, "utf-8")
    run, profile = new_run(directory), speed_profile(directory, WORKLOAD)
    done = gate(f"--specdec-run-dir={run}", f"--specdec-profile={profile}", *arguments, cwd=directory)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    return run


@pytest.fixture(scope="module")
def two_at_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(tmp_path_factory.mktemp("ahead"), "--specdec-servers-at-once=2")


def test_exact_cells_are_measured_side_by_side(two_at_once: Path) -> None:
    cells = _times(two_at_once, "exact")
    assert len(cells) == 5
    assert any(_together(one, other) for one, other in combinations(cells.values(), 2))


def test_what_is_timed_is_measured_alone(two_at_once: Path) -> None:
    (timed,) = _times(two_at_once, "speed").values()
    exact = _times(two_at_once, "exact")
    begin, end = timed[0][0], timed[-1][1]
    assert not [arm for arm, cell in exact.items() if any(a < end and b > begin for a, b in cell)]
    assert [arm for arm, cell in exact.items() if cell[0][0] > end], "nothing was left to be held back"


def test_one_server_at_a_time_where_that_is_asked_for(tmp_path: Path, two_at_once: Path) -> None:
    run = _run(tmp_path, "--specdec-servers-at-once=1")
    cells = _times(run, "exact")
    assert not any(_together(one, other) for one, other in combinations(cells.values(), 2))

    def said(run: Path) -> dict[str, tuple[str, str]]:
        return {name: (row["status"], row["measured"]) for name, row in results_of(run).items()}

    assert said(run) == said(two_at_once)


def test_servers_of_somebody_else_are_asked_one_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(CLAIMS, "utf-8")
    done = gate("--specdec-servers-at-once=2", "--specdec-server-url=base=http://127.0.0.1:9", cwd=tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "using 2 servers at once (--specdec-servers-at-once)\n  why:    attached servers" in done.stderr
