"""Prompts that ask for something of their own keep it, and it is part of what the workload's hash stands for."""

from __future__ import annotations

from dataclasses import replace

from pytest_specdec.profile import load as load_profile
from pytest_specdec.workloads import load

KINDS = ("grammar", "schema", "tool", "stop", "bias", "penalty", "seed")


def test_every_kind_of_request_is_there_and_carries_its_own_parameters() -> None:
    workload = load(load_profile("tiny"), "requests")
    asked = {prompt.id: prompt.request for prompt in workload.prompts}
    assert {name.partition("-")[0] for name in asked} == set(KINDS)
    assert all(asked.values())
    assert "grammar" in asked["grammar-rows"]
    assert asked["seed-2"]["seed"] == 2


def test_prompts_without_any_have_the_workloads_request_alone() -> None:
    profile = load_profile("tiny")
    assert not any(prompt.request for prompt in load(profile, "mixed").prompts)
    requests = load(profile, "requests")
    assert requests.sha256 != load(replace(profile, workloads={"requests": {"n_predict": 65}}), "requests").sha256
