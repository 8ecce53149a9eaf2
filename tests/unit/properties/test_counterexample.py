"""A counterexample is told in words and as commands that can be pasted."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import find
from hypothesis.errors import NoSuchExample

from pytest_specdec.properties import Ask, Scenario, curl, problem_of, scenarios, settings_for
from pytest_specdec.records import Effort, Reason, StopType
from tests.unit.lossless.replies import NOISE, SECOND, reply


def test_the_command_carries_the_whole_request() -> None:
    ask = Ask('print("it\'s")\n🙂', {"n_predict": 7, "stop": ["'"]}, slot=1)
    words = shlex.split(curl([ask], at_once=True))
    assert words[:2] == ["curl", "-s"]
    body = json.loads(words[words.index("-d") + 1])
    assert body == {**ask.body, "prompt": ask.prompt, "return_tokens": True}
    assert body["id_slot"] == 1


def test_requests_at_once_go_to_the_background() -> None:
    asks = [Ask("a"), Ask("b")]
    assert [line.endswith(" &") for line in curl(asks, at_once=True).splitlines()] == [True, True]
    assert not curl(asks, at_once=False).endswith("&")


def test_what_is_wrong_with_a_reply() -> None:
    base = reply(1, 2, 3, gaps=[1, 0.001])
    assert problem_of(base, base, NOISE) is None
    assert problem_of(base, reply(1, 2 + SECOND, 9), NOISE) is None
    found = problem_of(base, reply(1, 7, 3), NOISE)
    assert found is not None
    assert found[0] is Reason.TOKENS_DIFFER
    assert "token 1 is 7 for 2" in found[1]
    ended_otherwise = problem_of(base, replace(base, stop_type=StopType.WORD), NOISE)
    assert ended_otherwise is not None


@pytest.mark.parametrize("change", [{"predicted_n": 4}, {"draft_n_accepted": 8}, {"draft_n_accepted": -1}])
def test_counters_that_cannot_be(change: dict[str, int]) -> None:
    base = reply(1, 2, 3)
    found = problem_of(base, replace(base, timings=replace(base.timings, **change)), NOISE)
    assert found is not None
    assert found[0] is Reason.COUNTERS_DISAGREE


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(lambda s: any(a.request["n_predict"] == 0 for a in s.asks), id="nothing to predict"),
        pytest.param(lambda s: any("🙂" in a.prompt for a in s.asks), id="Unicode"),
        pytest.param(lambda s: any("stop" in a.request for a in s.asks), id="stop strings"),
        pytest.param(lambda s: s.at_once and {a.slot for a in s.asks} == {0, 1}, id="two slots at once"),
        pytest.param(lambda s: len(s.asks) > 1 and s.asks[1].request["cache_prompt"], id="a warm second request"),
        pytest.param(lambda s: any(len(a.prompt) > 400 for a in s.asks), id="a long prompt"),
        pytest.param(lambda s: any(len(a.prompt) == 1 for a in s.asks), id="a prompt of one character"),
    ],
)
def test_the_grammar_reaches(wanted: object) -> None:
    assert callable(wanted)
    try:
        assert isinstance(find(scenarios(2), wanted, settings=settings_for(Effort.MINUTES, Path("/nowhere"))), Scenario)
    except NoSuchExample:
        pytest.fail("no scenario like that was drawn")
