"""The run directory: what goes in comes out, and a torn line costs only itself."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path

import pytest

from pytest_specdec.errors import LedgerError
from pytest_specdec.measure.ledger import Ledger, append_line, plain
from pytest_specdec.records import (
    Alternative,
    CellKey,
    Counters,
    FigureKind,
    Generation,
    Mode,
    Reason,
    StopType,
    Void,
)
from tests.support import PATIENCE_S, ROOT, generation

KEY = CellKey(Mode.EXACT, "mixed", "dflash2")
OTHER = CellKey(Mode.SPEED, "code", "dflash2+k4v@5", "base")


def rich(prompt_id: str = "p1", cell: CellKey = KEY) -> Generation:
    """One that uses every field."""
    return generation(
        (5, 6, 7), cell=cell, prompt_id=prompt_id, drafted=7, accepted=2, drafts=1,
        counters=Counters(1, 7, 2, 3, (1, 1, 0)), stop_type=StopType.EOS, truncated=True,
        event_ns=(10, 20), event_tokens=(1, 2), pieces=("ä", "日本 \u2028\n"),
        alternatives=(Alternative(9, 0.25), Alternative(-1, float("inf"))),
        voids=(Void(Reason.TRUNCATED, frozenset({FigureKind.SPEED, FigureKind.MEMORY}), "why"),),
    )  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "run")


def test_generations_come_back_as_they_were(ledger: Ledger) -> None:
    first, second, other = rich("p1"), generation(prompt_id="p2", cell=KEY, counters=None), rich("p1", OTHER)
    for made in (first, other, second):
        ledger.append(made)
    assert ledger.generations(KEY) == (first, second)
    assert Ledger(ledger.directory).generations(OTHER) == (other,)
    assert ledger.generations(CellKey(Mode.EXACT, "mixed", "base")) == ()


def test_finished_and_failed_cells_come_back(ledger: Ledger) -> None:
    ledger.finish_cell(KEY, "the log")
    ledger.finish_cell(OTHER, None, {"status": "void", "reason": "server_failed", "summary": "s", "detail": "d"})
    cells = Ledger(ledger.directory).cells()
    assert cells[KEY]["log"] == "the log"
    assert cells[KEY]["failure"] is None
    assert cells[OTHER]["failure"]["reason"] == "server_failed"


def test_only_void_failures_are_reopened_and_may_fail_anew(ledger: Ledger) -> None:
    void, fail = ({"status": s, "reason": "r", "summary": "s", "detail": "d"} for s in ("void", "fail"))
    ledger.finish_cell(KEY, None, void)
    ledger.finish_cell(OTHER, None, fail)
    ledger.reopen_void()
    assert list(Ledger(ledger.directory).cells()) == [OTHER]
    ledger.finish_cell(KEY, None, fail)
    ledger.reopen_void()
    assert {key: row["failure"]["status"] for key, row in ledger.cells().items()} == {KEY: "fail", OTHER: "fail"}


def test_each_line_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    program = f"""
        import os, signal
        from pathlib import Path
        from pytest_specdec.measure.ledger import Ledger
        from tests.support import generation

        ledger = Ledger(Path({str(tmp_path)!r}) / "run")
        for n in range(3):
            ledger.append(generation(prompt_id=f"p{{n}}"))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    code = textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=PATIENCE_S, check=False)
    assert done.returncode == -9
    assert [g.prompt_id for g in Ledger(tmp_path / "run").generations(KEY)] == ["p0", "p1", "p2"]


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_torn_last_line_is_passed_over_and_costs_nobody_else(ledger: Ledger, kept: float) -> None:
    ledger.append(rich("p1"))
    whole = (ledger.directory / "generations.jsonl").read_bytes()
    torn = whole[: int(len(whole) * kept)]
    (ledger.directory / "generations.jsonl").write_bytes(whole + torn)
    assert [g.prompt_id for g in ledger.generations(KEY)] == ["p1"]
    ledger.append(rich("p2"))
    ledger.append(rich("p3"))
    assert [g.prompt_id for g in ledger.generations(KEY)] == ["p1", "p2", "p3"]


def test_a_line_that_another_thread_is_writing_is_not_torn(tmp_path: Path) -> None:
    """A long line becomes visible piece by piece: whoever takes a half of it for a torn one adds an empty line."""
    path = tmp_path / "rows.jsonl"

    def write(number: int) -> None:
        for _ in range(50):
            append_line(path, {"by": number, "text": "x" * 40_000})

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == 200
    assert {json.loads(line)["by"] for line in lines} == {0, 1, 2, 3}


def test_half_a_character_is_kept_and_the_file_stays_utf8(ledger: Ledger) -> None:
    made = generation((1,), cell=KEY, pieces=("\ud83d",))
    ledger.append(made)
    assert ledger.generations(KEY) == (made,)
    (ledger.directory / "generations.jsonl").read_text("utf-8")


def test_identity_and_results_are_written_whole(ledger: Ledger) -> None:
    assert not Ledger(ledger.directory).is_begun
    ledger.begin({"run": "ü", "settings": {"margin": 0.05}})
    assert ledger.is_begun
    assert json.loads((ledger.directory / "run.json").read_text("utf-8")) == {"run": "ü", "settings": {"margin": 0.05}}
    assert ledger.write_results({"verdicts": []}) == ledger.directory / "results.json"
    assert not list(ledger.directory.glob("*.partial"))


def test_every_server_gets_a_log_of_its_own(ledger: Ledger) -> None:
    paths = [ledger.log_path("exact-dflash2/k4v") for _ in range(3)]
    assert len(set(paths)) == 3
    assert all(path.parent == ledger.directory / "logs" for path in paths)


def test_locks_keep_processes_apart(ledger: Ledger) -> None:
    mine, same, other = (
        Ledger(ledger.directory).locked(f"exact/mixed/{arm}") for arm in ("dflash2", "dflash2", "base")
    )
    mine.acquire()
    other.acquire(timeout=0.05)
    with pytest.raises(TimeoutError):
        same.acquire(timeout=0.05)
    mine.release()
    same.acquire(timeout=0.05)
    for lock in (same, other):
        lock.release()


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LedgerError) as caught:
        Ledger(tmp_path / "file" / "run")
    assert "--specdec-run-dir" in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told(ledger: Ledger) -> None:
    (ledger.directory / "generations.jsonl").symlink_to("/dev/full")
    with pytest.raises(LedgerError, match=r"appending a line to .*generations\.jsonl"):
        ledger.append(rich())


class Word(Enum):
    A = "a"


def test_records_become_json_values() -> None:
    nested = {Word.A: (1.5, float("nan"), float("-inf")), 2: {"set": frozenset({"b", "a"})}, "path": Path("x")}
    assert plain(nested) == {"Word.A": [1.5, None, None], "2": {"set": ["a", "b"]}, "path": "x"}
    json.dumps(plain(rich()), allow_nan=False)
