"""Where prompts come from, and the text that gives them depth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.errors import ProfileError
from pytest_specdec.profile import load as load_profile
from pytest_specdec.records import Profile
from pytest_specdec.workloads import load
from pytest_specdec.workloads.filler import filler, shuffled
from pytest_specdec.workloads.sources import prompts_of

TINY = load_profile("tiny")


def with_workload(**sizes: Any) -> Profile:
    return replace(TINY, workloads={"own": sizes})


def test_a_local_file_of_livecodebench(tmp_path: Path) -> None:
    rows = [
        {"question_id": "abc", "question_content": "Add two numbers.", "starter_code": "def add(a, b):"},
        {"question_id": "def", "question_content": "Print nothing.", "starter_code": ""},
    ]
    path = tmp_path / "livecodebench.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n", "utf-8")
    first, second = prompts_of("code", {"path": str(path)}, "tiny")
    assert (first.id, second.id) == ("abc", "def")
    assert "Add two numbers." in first.text
    assert "def add(a, b):" in first.text
    assert "```" not in second.text


def test_a_path_is_looked_for_beside_the_profile(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"id": 1, "text": "one", "group": "build"}\n', "utf-8")
    (prompt,) = prompts_of("own", {"path": "own.jsonl"}, str(tmp_path / "profile.toml"))
    assert (prompt.id, prompt.text, prompt.group) == ("1", "one", "build")


@pytest.mark.parametrize("line", ['{"id": 1}', "not json", '{"question_id": "a"}'])
def test_rows_that_are_no_prompts_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(line + "\n", "utf-8")
    with pytest.raises(ProfileError):
        prompts_of("own", {"path": str(path)}, "tiny")


def test_a_session_has_its_phases() -> None:
    for profile in (TINY, load_profile("qwen3.8-27b")):
        groups = [prompt.group for prompt in load(profile, "session").prompts]
        assert groups == ["build"] * 9 + ["repeat"] + ["maintain"] * 8


def test_filler_is_the_same_for_one_seed_and_shares_no_beginning() -> None:
    assert filler(2000, "p1") == filler(2000, "p1")
    assert filler(2000, "p1")[:40] != filler(2000, "p2")[:40]
    assert 2000 <= len(filler(2000, "p1")) < 2400
    compile(filler(20_000, "p1"), "filler", "exec")


def test_shuffled_text_repeats_nothing_before_all_has_been() -> None:
    texts = [f"text {number}" for number in range(10)]
    assert sorted(shuffled(texts, 70, "p").split("\n\n")[:8]) == sorted(set(shuffled(texts, 70, "p").split("\n\n")[:8]))
    assert len(shuffled(texts, 500, "p")) >= 500


def test_a_forced_length_ignores_the_end_of_text() -> None:
    workload = load(with_workload(data="code", prompts=2, n_predict=40, forced=True), "own")
    assert workload.forced_tokens == 40
    assert workload.request["ignore_eos"] is True
    assert workload.request["cache_prompt"] is False


def test_depth_and_format_are_part_of_the_hash() -> None:
    plain, deep, formatted = (
        load(with_workload(data="code", prompts=2, **more), "own").sha256
        for more in ({}, {"depth_chars": 200}, {"format": "<{text}>"})
    )
    assert len({plain, deep, formatted}) == 3
