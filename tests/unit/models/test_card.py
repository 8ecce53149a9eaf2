from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.errors import ModelError
from pytest_specdec.models import members
from pytest_specdec.models.card import card_text, figures

if TYPE_CHECKING:
    from pathlib import Path

ROW = {
    "prompts": 2,
    "tokens": 101,
    "drafted": 140,
    "accepted": 70,
    "acceptance": 0.5,
    "tokens_per_cycle": 3.25,
    "ended": 2,
    "looping": 0,
    "same_as_base": 2,
}
MEMBER = {
    "file": "a.gguf",
    "sha256": "ab" * 32,
    "size": 4_000,
    "parameters": 1_234_567,
    "arch": "qwen3",
    "about": "a member",
    "training": {"steps": 7},
}


def write(directory: Path, **changed: Any) -> None:
    card = {
        "server": "llama.cpp b1",
        "command": "measure it",
        "threads": 1,
        "members": {"a": MEMBER["sha256"]},
        "arms": {"base": {"code": ROW}, "a@7": {"code": ROW}},
    }
    (directory / "manifest.json").write_text(json.dumps({"members": {"a": MEMBER}}), encoding="utf-8")
    (directory / "card.json").write_text(json.dumps({**card, **changed}), encoding="utf-8")


def test_the_page_says_what_a_member_is_and_what_was_measured(tmp_path: Path) -> None:
    write(tmp_path)
    text = card_text(tmp_path)
    for part in ("a: a member", "1,234,567 parameters", "ab" * 32, "steps 7", "llama.cpp b1", "measure it"):
        assert part in text
    assert [line.split() for line in text.splitlines() if line.startswith("a@7")] == [["a@7", "3.25", "50%"]]


def test_figures_are_found_by_arm_and_workload(tmp_path: Path) -> None:
    write(tmp_path)
    assert figures(tmp_path)["a@7", "code"].tokens_per_cycle == 3.25


def test_a_card_of_other_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path, members={"a": "cd" * 32})
    with pytest.raises(ModelError, match="other files"):
        card_text(tmp_path)


@pytest.mark.parametrize(
    ("content", "why"),
    [("", "cannot be read"), ("[]", "no JSON object")],
)
def test_a_damaged_card_is_explained(tmp_path: Path, content: str, why: str) -> None:
    write(tmp_path)
    (tmp_path / "card.json").write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=why):
        figures(tmp_path)


def test_a_row_that_lacks_a_figure_is_explained(tmp_path: Path) -> None:
    write(tmp_path, arms={"base": {"code": {"prompts": 2}}})
    with pytest.raises(ModelError, match="not a card"):
        figures(tmp_path)


def test_a_missing_card_is_explained(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "card.json").unlink()
    with pytest.raises(ModelError, match="does not exist"):
        card_text(tmp_path)


def test_the_shipped_card_covers_every_member_and_workload() -> None:
    rows = figures()
    arms = {arm.split("@")[0] for arm, _ in rows}
    assert arms >= set(members()) - {"target"} | {"base"}
    assert {workload for _, workload in rows} == {"code", "prose", "session", "refrain", "mixed"}


def test_the_shipped_target_seldom_loops() -> None:
    base = {workload: row for (arm, workload), row in figures().items() if arm == "base"}
    assert sum(row.looping for row in base.values()) <= sum(row.prompts for row in base.values()) / 20


@pytest.mark.parametrize(("workload", "low", "high"), [("code", 4.0, 5.5), ("prose", 2.0, 3.0)])
def test_the_block_drafter_is_neither_too_good_nor_too_bad(workload: str, low: float, high: float) -> None:
    assert low <= figures()["dflash2@7", workload].tokens_per_cycle <= high


@pytest.mark.parametrize("workload", ["code", "prose"])
def test_the_older_drafter_accepts_less_at_the_same_width(workload: str) -> None:
    rows = figures()
    assert rows["dflash1@7", workload].tokens_per_cycle < rows["dflash2@7", workload].tokens_per_cycle


def test_lookups_fire_and_miss_on_refrains() -> None:
    row = figures()["k4v", "refrain"]
    assert row.drafted >= 200
    assert row.acceptance < 0.4
