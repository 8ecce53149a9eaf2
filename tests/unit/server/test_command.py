"""The command line is made of the profile, the arm, the mode and the user's words, and of nothing else."""

from __future__ import annotations

import pytest

from pytest_specdec.profile import compose, load
from pytest_specdec.records import Mode
from pytest_specdec.server.command import ModelArguments, argv, redacted, speculation

TINY = load("tiny")
BOTH = ModelArguments("target.gguf", drafter="drafter.gguf")


def made(arm: str, mode: Mode = Mode.EXACT, models: ModelArguments = BOTH, **more: object) -> tuple[str, ...]:
    return argv(["llama-server"], TINY, compose(TINY, arm), mode, models, 8080, "key", **more)  # type: ignore[arg-type]


def value(words: tuple[str, ...], flag: str) -> str:
    assert words.count(flag) == 1
    return words[words.index(flag) + 1]


def test_the_launcher_goes_first_and_the_users_words_last() -> None:
    words = made("dflash2", launcher=("nice", "-n", "5"), arm_args=("--spec-synth-len", "2"))
    assert words[:6] == ("nice", "-n", "5", "llama-server", "--model", "target.gguf")
    assert words[-2:] == ("--spec-synth-len", "2")


def test_where_it_listens_and_with_which_key() -> None:
    words = made("base")
    assert [value(words, flag) for flag in ("--host", "--port", "--api-key")] == ["127.0.0.1", "8080", "key"]


def test_base_does_not_speculate() -> None:
    words = made("base", models=ModelArguments("target.gguf"), arm_args=("--spec-synth-len", "2"))
    assert not [word for word in words if word.startswith("--spec") or "draft" in word]


def test_an_arm_leaves_nothing_to_a_default() -> None:
    words = made("dflash2+k4v@5")
    assert value(words, "--model-draft") == "drafter.gguf"
    assert value(words, "--spec-type") == "draft-dflash,ngram-map-k4v"
    assert value(words, "--spec-draft-n-max") == "5"
    assert value(words, "--spec-draft-n-min") == "0"
    assert value(words, "--spec-draft-p-min") == "0.0"
    assert value(words, "--ctx-size") == "4096"
    assert value(words, "--flash-attn") == "on"
    assert "--metrics" in words


def test_exact_claims_run_on_one_thread_everywhere_speed_claims_do_not() -> None:
    threads = ("--threads", "--threads-batch", "--threads-draft", "--threads-batch-draft")
    assert {value(made("dflash2"), flag) for flag in threads} == {"1"}
    assert {value(made("dflash2", Mode.SPEED), flag) for flag in threads} != {"1"}
    assert "--threads-draft" not in made("base", models=ModelArguments("target.gguf"))


def test_a_claims_own_flags_replace_those_of_the_profile() -> None:
    words = made("dflash2", extra_flags={"--parallel": 2, "--metrics": False, "--slots": True})
    assert value(words, "--parallel") == "2"
    assert "--metrics" not in words
    assert "True" not in words
    assert words.count("--slots") == 1


def test_models_may_be_repositories() -> None:
    models = ModelArguments("org/target:Q4", True, "org/drafter", True)
    words = made("dflash2", models=models)
    assert (value(words, "--hf-repo"), value(words, "--hf-repo-draft")) == ("org/target:Q4", "org/drafter")
    assert "--model" not in words


def test_the_same_goes_in_the_same_comes_out() -> None:
    assert made("dflash2+mod+k4v@3") == made("dflash2+mod+k4v@3")


def test_speculation_is_the_arm_without_models_and_places() -> None:
    words = speculation(compose(TINY, "dflash2@5"))
    assert words.startswith("--spec-type draft-dflash --spec-draft-n-max 5 ")
    assert "gguf" not in words
    assert speculation(compose(TINY, "base")) == ""


def test_the_key_is_hidden_wherever_it_stands() -> None:
    assert redacted(("a", "--api-key", "key", "b"), "key") == ("a", "--api-key", "***", "b")


@pytest.mark.parametrize("profile", ["qwen3.8-27b", "qwen3.6-27b"])
def test_every_judged_arm_of_the_study_has_a_command_line(profile: str) -> None:
    known = load(profile)
    for name in ("base", *known.judged_arms):
        arm = compose(known, name)
        words = argv(["llama-server"], known, arm, Mode.SPEED, BOTH, 1, "key")
        assert ("--spec-type" in words) == arm.drafted
        assert all(isinstance(word, str) for word in words)
