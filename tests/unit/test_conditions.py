"""In what two runs differ, a line each."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specdec.conditions import differences, joined

THEN: dict[str, Any] = {
    "build": {"version": "version: 11549 (1a2b3c4)", "llama-server": "0" * 64, "libllama.so": "1" * 64},
    "device": "cpu",
    "--specdec-arm-args": "",
    "model": {"target": "2" * 64},
    "workload": {"mixed": "3" * 64},
    "profile": {
        "name": "tiny",
        "server_flags": {"--ctx-size": 4096},
        "arms": {"dflash2": {"spec_types": ["draft-dflash"], "n_max": 7, "flags": {"--spec-draft-p-min": 0.0}}},
        "thermal": {"arm_start_c": None},
    },
}


def changed(**tables: Any) -> dict[str, Any]:
    return joined(tables, THEN)


def test_the_same_is_the_same() -> None:
    assert list(differences(THEN, changed())) == []


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (changed(build={"libllama.so": "4" * 64}), ["build libllama.so: 111111111111 then, 444444444444 now"]),
        (changed(build={"libggml.so": "4" * 64}), ["build libggml.so: nothing then, 444444444444 now"]),
        (changed(device="h200"), ["device: cpu then, h200 now"]),
        (
            changed(**{"--specdec-arm-args": "--spec-draft-p-min 0.85"}),
            ["--specdec-arm-args: nothing then, --spec-draft-p-min 0.85 now"],
        ),
        (changed(model={"target": "hf:a/b"}), ["model target: 222222222222 then, hf:a/b now"]),
        (
            changed(profile={"server_flags": {"--seed": True}, "arms": {"dflash2": {"spec_types": ["draft-mtp"]}}}),
            [
                "profile server_flags --seed: nothing then, true now",
                'profile arms dflash2 spec_types: ["draft-dflash"] then, ["draft-mtp"] now',
            ],
        ),
        (
            changed(profile={"arms": {"dflash2": {"flags": {"--spec-draft-p-min": 0.85}}}}),
            ["profile arms dflash2 flags --spec-draft-p-min: 0.0 then, 0.85 now"],
        ),
    ],
)
def test_each_difference_is_a_line(now: dict[str, Any], told: list[str]) -> None:
    assert sorted(differences(THEN, now)) == sorted(told)


@pytest.mark.parametrize(
    "now",
    [
        changed(**{"base build": {"version": "version: 11434 (abcdef0)"}}),
        changed(model={"dflash2": "5" * 64}),
        changed(workload={"code": "5" * 64}),
        changed(profile={"arms": {"mine": {"n_max": 3}}}),
        changed(profile={"workloads": {"code": {"prompts": 3}}}),
    ],
)
def test_what_only_one_of_them_has_is_no_difference(now: dict[str, Any]) -> None:
    assert list(differences(THEN, now)) == []
    assert list(differences(now, THEN)) == []


def test_what_was_stays_beside_what_is_new() -> None:
    assert joined({"a": {"b": 1}, "c": [1]}, {"a": {"b": 2, "d": 3}, "c": [2], "e": 4}) == {
        "a": {"b": 1, "d": 3}, "c": [1], "e": 4,
    }  # fmt: skip
