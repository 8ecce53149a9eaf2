"""The plan says what a run would cost, without a model or a server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import ROOT, gate


def plan(*arguments: str) -> str:
    run = gate("suites", "--specdec-plan", *arguments)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def plan_27b() -> str:
    return plan("-m", "dflash2", "--specdec-profile=qwen3.8-27b")


def test_the_gate_of_the_27b_profile_fits_into_an_hour(plan_27b: str) -> None:
    found = re.search(r"about (\d+) device minutes", plan_27b)
    assert found is not None
    assert int(found[1]) <= 60


def test_it_shows_the_arithmetic(plan_27b: str) -> None:
    assert "reckoned with 10 s to start a server, 10 s to cool" in plan_27b
    assert re.search(r"speed on code: \d+ arms, blocks of 6 of 64 prompts, \d+ visits", plan_27b)
    parts = [float(minutes) for minutes in re.findall(r"([\d.]+) min$", plan_27b, re.MULTILINE)]
    total = re.search(r"about (\d+) device minutes", plan_27b)
    assert total is not None
    assert sum(parts) == pytest.approx(int(total[1]), abs=1.5)


def test_a_budget_is_answered_by_the_slowdown_that_it_finds() -> None:
    text = plan("-m", "dflash2 and speed", "--specdec-profile=qwen3.8-27b", "--specdec-budget=8 pairs")
    found = re.search(r"speedup\.code +\d+ +8 +([\d.]+)%", text)
    assert found is not None
    assert float(found[1]) > 5


def test_what_is_not_there_is_named_with_the_claims_that_need_it() -> None:
    text = plan("-m", "mtp or speed")
    head = re.search(r"(\d+) claims, (\d+) of them need what is not there:\n", text)
    assert head is not None
    told = re.sub(r"\n    ", " ", text[head.end() :].partition("\n\n")[0]).splitlines()
    missing = {what.strip(): named.split(", ") for what, _, named in (line.partition(": ") for line in told)}
    assert "pmin.mtp" in missing["the arm mtp"]
    assert "a second build (--llama-server-base=PATH)" in missing
    assert sum(map(len, missing.values())) == int(head[2])


def test_a_table_has_its_words_in_its_head(plan_27b: str) -> None:
    assert plan_27b.count("pairs if nothing changed") == plan_27b.count("\nspeed on ")


def test_nothing_is_started(tmp_path: Path) -> None:
    run = tmp_path / "run"
    plan("-m", "speed", f"--specdec-run-dir={run}")
    assert not run.exists()
    assert (ROOT / "suites").is_dir()


def test_the_turns_that_a_piece_of_a_conversation_reads_are_reckoned_with(tmp_path: Path) -> None:
    """In one piece a visit reads each turn once; cut in three, the later pieces read what was said before them."""
    tokens = {}
    for size in (9, 3):
        profile = tmp_path / f"{size}.toml"
        profile.write_text(
            f'extends = "tiny"\nname = "tiny"\nabout = "x"\n[workloads.session]\nblock_prompts = {size}\n'
        )
        text = plan("-m", "dflash2", "-k", "session", f"--specdec-profile={profile}")
        found = re.search(r"speed on session: .* = (\d+) server starts; .* ([\d,]+) in all", text)
        assert found is not None
        tokens[size] = int(found[2].replace(",", "")) / int(found[1])
    assert tokens[3] > tokens[9] / 3
