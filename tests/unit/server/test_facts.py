"""What a server that somebody else runs says of itself, and what a person is told where it says nothing."""

from __future__ import annotations

import json

import pytest

from pytest_specdec.errors import ServerError
from pytest_specdec.server.facts import build_info, target_facts
from pytest_specdec.server.process import AttachedServer
from tests.web import Action, says, serving


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (says("[]"), "it answered without build_info"),
        (says("{}"), "it answered without build_info"),
        (says("<html>"), "it answered with something that is not JSON: '<html>'"),
        (says("gone", status=404), "HTTP 404: gone"),
    ],
)
def test_something_that_is_no_llama_server_is_told(answer: Action, why: str) -> None:
    with serving({"/props": answer}) as web, pytest.raises(ServerError) as caught:
        build_info(AttachedServer("base", web.url))
    assert f"asking {web.url}/props (arm base)" in str(caught.value)
    assert why in str(caught.value)
    assert "is it a llama-server?" in str(caught.value)


@pytest.mark.parametrize(("key", "state"), [(None, "unset"), ("another", "wrong")])
@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_the_servers_is_told_by_the_variable_that_holds_it(
    key: str | None, state: str, status: int
) -> None:
    with serving({"/props": says("no", status=status)}) as web, pytest.raises(ServerError) as caught:
        build_info(AttachedServer("base", web.url, key))
    assert f"{status}: $LLAMA_API_KEY is {state}" in str(caught.value)
    assert "developer.mozilla.org" not in str(caught.value)


def test_the_facts_of_a_model_are_its_own_and_not_its_servers() -> None:
    meta = {"n_vocab": 1024, "n_params": 7, "n_ctx": 4096, "ftype": "Q8_0"}
    with serving({"/v1/models": says(json.dumps({"data": [{"id": "/a.gguf", "meta": meta}]}))}) as web:
        found = target_facts(AttachedServer("base", web.url))
    assert found == {"n_vocab": 1024, "n_params": 7, "ftype": "Q8_0"}


@pytest.mark.parametrize("answer", ["{}", '{"data": []}', '{"data": [{"meta": null}]}', "[]"])
def test_a_server_that_tells_nothing_of_its_model_tells_no_facts(answer: str) -> None:
    with serving({"/v1/models": says(answer)}) as web:
        assert target_facts(AttachedServer("base", web.url)) == {}
