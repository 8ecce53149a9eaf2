"""The prompt data that ships with the package."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import pytest


def data(name: str) -> dict[str, Any]:
    text = resources.files("pytest_specdec.workloads").joinpath("data", f"{name}.json").read_text("utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


@pytest.mark.parametrize(("name", "least"), [("code", 64), ("prose", 64), ("refrain", 12), ("mixed", 16)])
def test_prompts_are_many_and_distinct(name: str, least: int) -> None:
    prompts = data(name)["prompts"]
    assert len(prompts) >= least
    assert len({prompt["text"] for prompt in prompts}) == len(prompts)
    assert len({prompt["id"] for prompt in prompts}) == len(prompts)


def test_the_session_has_eighteen_turns() -> None:
    turns = data("session")["turns"]
    assert [turn["id"] for turn in turns] == [f"turn-{number:02d}" for number in range(1, 19)]


@pytest.mark.parametrize("name", ["code", "prose", "refrain", "session"])
def test_no_prompt_ends_with_white_space(name: str) -> None:
    """A reply begins with it: only so does a prompt with its reply have the same tokens as the two have apart."""
    content = data(name)
    for prompt in content["turns" if name == "session" else "prompts"]:
        assert prompt["text"] == prompt["text"].rstrip()
