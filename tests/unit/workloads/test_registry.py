"""Workloads: the same content has the same hash, and any other content has another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_specdec.errors import ProfileError
from pytest_specdec.profile import load as load_profile
from pytest_specdec.records import Json, Profile
from pytest_specdec.workloads import load
from pytest_specdec.workloads.sources import prompts_of

TINY = load_profile("tiny")


def sized(**sizes: Json) -> Profile:
    return replace(TINY, workloads={"code": {"prompts": 3, "n_predict": 16, **sizes}})


@pytest.mark.parametrize("name", [name for name, sizes in TINY.workloads.items() if not sizes.get("conversation")])
def test_every_workload_of_the_tiny_profile_is_there(name: str) -> None:
    workload = load(TINY, name)
    assert workload.name == name
    assert workload.prompts
    ids = [prompt.id for prompt in workload.prompts]
    assert len(ids) == len(set(ids))
    assert all(prompt.text for prompt in workload.prompts)
    assert workload.request["temperature"] == 0.0
    assert workload.request["return_tokens"] is True


def test_mixed_has_what_the_first_claims_need() -> None:
    assert len(load(TINY, "mixed").prompts) >= 16


def test_the_same_content_has_the_same_hash() -> None:
    assert load(sized(), "code") == load(sized(), "code")
    assert len(load(sized(), "code").sha256) == 64


@pytest.mark.parametrize("sizes", [{"prompts": 2}, {"n_predict": 17}, {"times": 2}, {"data": "prose"}])
def test_any_other_content_has_another_hash(sizes: dict[str, Json]) -> None:
    assert load(sized(**sizes), "code").sha256 != load(sized(), "code").sha256


@pytest.mark.parametrize("sizes", [{"prompts": 2}, {"conversation": True}])
def test_sampled_replies_are_drawn_anew_each_time(sizes: dict[str, Json]) -> None:
    """A temperature would not be the model's own, and the seed of the server's flags would repeat every reply."""
    drawn, greedy = load(sized(**sizes, sampled=True), "code"), load(sized(**sizes), "code")
    assert (drawn.sampled, greedy.sampled) == (True, False)
    assert "temperature" not in drawn.request
    assert drawn.request["seed"] == -1
    assert "seed" not in greedy.request
    assert drawn.request["cache_prompt"] == greedy.request["cache_prompt"] == ("conversation" in sizes)
    assert drawn.sha256 != greedy.sha256


def test_the_order_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    straight = load(sized(), "code")
    monkeypatch.setattr("pytest_specdec.workloads.registry.prompts_of", lambda *given: prompts_of(*given)[::-1])
    backwards = load(sized(), "code")
    assert {prompt.id for prompt in backwards.prompts} == {prompt.id for prompt in straight.prompts}
    assert backwards.sha256 != straight.sha256


def test_prompts_may_be_asked_several_times_in_a_row() -> None:
    once = [prompt.id for prompt in load(sized(prompts=2), "code").prompts]
    thrice = load(sized(prompts=2, times=3), "code").prompts
    assert [prompt.id for prompt in thrice] == [
        once[0],
        f"{once[0]}#2",
        f"{once[0]}#3",
        once[1],
        f"{once[1]}#2",
        f"{once[1]}#3",
    ]
    assert len({prompt.text for prompt in thrice}) == 2


def test_a_workload_that_the_profile_lacks_is_named_with_a_near_one() -> None:
    with pytest.raises(ProfileError) as caught:
        load(TINY, "mixd")
    assert "the profile tiny has no such workload; did you mean 'mixed'?" in str(caught.value)
    assert "[workloads.mixd]" in str(caught.value)


def test_prompt_data_that_the_package_lacks_is_told() -> None:
    with pytest.raises(ProfileError):
        load(sized(data="unheard-of"), "code")
