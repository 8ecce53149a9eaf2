"""Speed panels on a real server: order, fresh servers, answers, arms that drop out, resume. No figure is timed here.

Floors far from what any machine can do make the verdicts certain, whatever else the machine is doing.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.profile import load
from tests.support import ROOT, gate, lines_of, new_run, results_of, speed_profile

SESSIONS = """
[workloads.session]
conversation = true
n_predict = 24
block_prompts = {turns}

[workloads.session-sampled]
data = "session"
conversation = true
sampled = true
n_predict = 24
"""
CERTAIN, HOPELESS = 1e-6, 1e6
SPEEDUP = "suites/test_speedup.py"


class Panels:
    """Runs speed claims with floors of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.talk(turns=9)
        self.floors()

    def talk(self, turns: int) -> None:
        """So many turns of the conversation in one block."""
        speed_profile(self.directory, SESSIONS.format(turns=turns), prompts=9)

    def floors(self, **floors: float) -> None:
        entries = {
            claim: {
                "kind": "published",
                "value": 1.0,
                "unit": "×",
                "direction": "higher",
                "floor": floor,
                "source": "test",
            }
            for claim, floor in floors.items()
        }
        path = self.directory / "baselines" / "small" / "reference.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"schema": 1, "profile": "small", "device": "reference", "entries": entries}
        path.write_text(json.dumps(document), "utf-8")

    def run(self, run: Path, *arguments: str, **environment: str) -> dict[str, Any]:
        where = [] if any("resume" in word for word in arguments) else [f"--specdec-run-dir={run}"]
        done = gate(
            f"--specdec-profile={self.directory / 'small.toml'}",
            f"--specdec-baselines={self.directory / 'baselines'}",
            *where, *arguments, cwd=ROOT, **environment,
        )  # fmt: skip
        assert (run / "results.json").exists(), done.stdout + done.stderr
        return results_of(run)


@pytest.fixture
def panels(tmp_path: Path) -> Panels:
    return Panels(tmp_path)


def visits(run: Path) -> list[tuple[int, str]]:
    """Block and arm, each visit once, in the order in which they were measured."""
    rows = [row for row in lines_of(run / "generations.jsonl") if row["cell"]["mode"] == "speed"]
    return [key for key, _ in groupby(rows, key=lambda row: (row["block"], row["cell"]["arm"]))]


def test_rounds_go_forth_and_back_until_everything_is_decided(panels: Panels) -> None:
    panels.floors(**{"speedup.code": CERTAIN, "speedup.code.itl": HOPELESS})
    run = new_run(panels.directory)
    found = panels.run(run, SPEEDUP, "--specdec-seed=5")
    assert (found["speedup.code"]["status"], found["speedup.code"]["reason"]) == ("pass", "held")
    assert (found["speedup.code.itl"]["status"], found["speedup.code.itl"]["reason"]) == ("fail", "below_floor")
    assert found["speedup.recommended"]["reason"] == "no_record"
    first, second, third, fourth = visits(run)[:4]
    assert [first[0], second[0], third[0], fourth[0]] == [0, 0, 1, 1]
    assert (first[1], second[1]) == (fourth[1], third[1]), "the second block visits the arms in reverse"
    assert len(list((run / "logs").glob("*speed-*"))) == len(visits(run)), "a fresh server for each arm and block"
    assert json.loads((run / "run.json").read_text("utf-8"))["seed"] == 5


def test_an_arm_that_no_open_claim_needs_drops_out(panels: Panels) -> None:
    panels.floors(**{"speedup.code": CERTAIN, "speedup.recommended": 1.0})
    run = new_run(panels.directory)
    panels.run(run, SPEEDUP, "--specdec-budget=30 pairs")
    blocks = Counter(arm for _, arm in visits(run))
    assert blocks["dflash2"] == 2
    assert blocks["dflash2@5"] == blocks["base"] >= 2


def test_a_resumed_run_adds_evidence_and_repeats_nothing(panels: Panels) -> None:
    """A budget that ends before a certain fail leaves the claim open; the same run goes on with a larger one."""
    panels.floors(**{"speedup.code": HOPELESS})
    run = new_run(panels.directory)
    code = f"{SPEEDUP}::test_dflash2_doubles_single_turn_code"
    before = panels.run(run, code, "--specdec-budget=6 pairs")
    assert before["speedup.code"]["status"] == "inconclusive"
    asked = [(row["cell"]["arm"], row["block"], row["prompt_id"]) for row in lines_of(run / "generations.jsonl")]
    after = panels.run(run, code, f"--specdec-resume={run}", "--specdec-budget=40 pairs")
    # Where the machine itself changed meanwhile, which no test can help, the longer evidence says that instead.
    decided = {("fail", "below_floor"), ("void", "clock_drift")}
    assert (after["speedup.code"]["status"], after["speedup.code"]["reason"]) in decided
    again = [(row["cell"]["arm"], row["block"], row["prompt_id"]) for row in lines_of(run / "generations.jsonl")]
    assert again[: len(asked)] == asked
    assert len(again) > len(asked)
    assert len(set(again)) == len(again)


def test_a_run_that_was_cut_off_is_completed(panels: Panels) -> None:
    """As after kill -9: the ledger ends in the middle of a block. What is there counts, what is missing is measured."""
    panels.floors(**{"speedup.code": CERTAIN})
    run = new_run(panels.directory)
    code = f"{SPEEDUP}::test_dflash2_doubles_single_turn_code"
    panels.run(run, code)
    path = run / "generations.jsonl"
    kept = path.read_text("utf-8").splitlines(keepends=True)[:4]
    path.write_text("".join(kept), "utf-8")
    found = panels.run(run, code, f"--specdec-resume={run}")
    assert found["speedup.code"]["status"] == "pass"
    rows = path.read_text("utf-8").splitlines(keepends=True)
    assert rows[:4] == kept
    assert len({(json.loads(r)["cell"]["arm"], json.loads(r)["block"], json.loads(r)["prompt_id"]) for r in rows}) == 12


def test_a_cell_that_fails_is_tried_once(panels: Panels) -> None:
    panels.floors(**{"speedup.code": CERTAIN, "speedup.code.itl": CERTAIN})
    run = new_run(panels.directory)
    found = panels.run(run, SPEEDUP, "--specdec-arm-args=--spec-draft-n-max 0 --spec-type none-such")
    assert {found[claim]["reason"] for claim in ("speedup.code", "speedup.code.itl")} == {"arm_lost"}
    assert len(list((run / "logs").glob("*speed-dflash2.log"))) == 1


def test_made_up_acceptance_voids_speed(panels: Panels) -> None:
    panels.floors(**{"speedup.code": CERTAIN})
    run = new_run(panels.directory)
    found = panels.run(
        run, f"{SPEEDUP}::test_dflash2_doubles_single_turn_code", "--specdec-arm-args=--spec-synth-len 4"
    )
    assert (found["speedup.code"]["status"], found["speedup.code"]["reason"]) == ("void", "synthetic_acceptance")


@pytest.mark.parametrize("turns", [9, 3])
def test_a_session_replays_what_base_has_said(turns: int, panels: Panels) -> None:
    """Whole, or in pieces: a round is of two, and the first turn of each reads all that was said before it."""
    panels.talk(turns)
    panels.floors(**{"session.dflash2": CERTAIN})
    run = new_run(panels.directory)
    found = panels.run(run, "suites/test_session.py::test_dflash2_alone")
    assert found["session.dflash2"]["status"] in ("pass", "void"), found["session.dflash2"]
    rows = list(lines_of(run / "generations.jsonl"))
    script = [row["prompt_id"] for row in rows if row["block"] < 0]
    assert script == [f"turn-{number:02d}" for number in range(1, 9)], "what stands before the last turn that is asked"
    measured = {row["prompt_id"] for row in rows if row["block"] >= 0}
    asked = [*script, "turn-09"]  # the build phase alone
    assert measured == set(asked[: 2 * turns])
    lengths = {(row["cell"]["arm"], row["prompt_id"]): row["timings"] for row in rows if row["block"] >= 0}
    for turn in measured:
        totals = {t["prompt_n"] + t["cache_n"] for (_, prompt), t in lengths.items() if prompt == turn}
        assert len(totals) == 1, "every arm reads the same context"


def test_a_sampled_session_is_each_arm_s_own_and_is_reported(panels: Panels) -> None:
    run = new_run(panels.directory)
    found = panels.run(run, "suites/test_session.py", "-k", "sampled")["session.sampled"]
    assert (found["status"], found["reason"]) == ("not judged", "reported"), found
    assert "base" in found["measured"]
    assert {"base, build phase", "dflash2, all turns"} <= set(found["evidence"])
    rows = list(lines_of(run / "generations.jsonl"))
    conversations: dict[tuple[str, int], list[Any]] = {}
    for row in rows:
        conversations.setdefault((row["cell"]["arm"], row["block"]), []).append(row)
    assert {block for _, block in conversations} == {0, 1}, "nothing is replayed, and each block is a conversation"
    for turns in conversations.values():
        assert len(turns) == 18
        for turn, following in pairwise(turns):
            before, after = turn["timings"], following["timings"]
            context = before["cache_n"] + before["prompt_n"] + before["predicted_n"] - 1
            assert after["cache_n"] + after["prompt_n"] > context, "a turn stands behind the arm's own replies"
    drawn = [[row["tokens"] for row in conversations["base", block]] for block in (0, 1)]
    assert drawn[0] != drawn[1], "no seed makes one conversation the other"


def test_cells_are_benchmarks_of_pytest_benchmark(panels: Panels) -> None:
    run, told = new_run(panels.directory), panels.directory / "benchmarks.json"
    panels.run(run, "suites/test_cells.py", f"--benchmark-json={told}", PYTEST_ADDOPTS="-p no:anyio")
    found = {row["name"]: row for row in json.loads(told.read_text("utf-8"))["benchmarks"]}
    assert set(found) == {"base", *load("tiny").judged_arms}
    drafted = found["dflash2"]
    assert drafted["group"] == "code"
    assert drafted["extra_info"]["tokens_per_cycle"] > 1
    (cell,) = [
        [row for row in lines_of(run / "generations.jsonl") if row["cell"]["arm"] == "dflash2" and not row["voids"]]
    ]
    per_token_s = [row["timings"]["predicted_ms"] / 1000 / (row["timings"]["predicted_n"] - 1) for row in cell]
    assert drafted["stats"]["rounds"] == len(cell)
    assert drafted["stats"]["mean"] == pytest.approx(sum(per_token_s) / len(per_token_s))


def test_without_pytest_benchmark_they_are_skipped(panels: Panels) -> None:
    done = gate("suites/test_cells.py", f"--specdec-profile={panels.directory / 'small.toml'}", "-rs")
    assert "pytest-benchmark is not installed, or not active" in done.stdout
