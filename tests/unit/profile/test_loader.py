"""Profiles: built in, of one's own, extended; and every mistake in one named with what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specdec.errors import ProfileError
from pytest_specdec.profile import BUILTIN, compose, load
from tests.support import small_profile

WHOLE = """
name = "mine"
about = "for tests"
judged_arms = ["dflash2"]

[models]
target = "target.gguf"
drafter = "drafter.gguf"

[server]
ready_timeout_s = 1
stall_timeout_s = 2
stop_timeout_s = 3

[server.flags]
ctx-size = 4096
metrics = true

[arms.base]

[arms.dflash2]
families = ["dflash2"]
spec_types = ["draft-dflash"]
drafter = "drafter"
n_max = 7

[workloads.mixed]
n_predict = 16
"""


@pytest.fixture
def write(tmp_path: Path) -> Path:
    return tmp_path / "mine.toml"


def refused(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    with pytest.raises(ProfileError) as caught:
        load(str(path))
    return str(caught.value)


@pytest.mark.parametrize("name", BUILTIN)
def test_the_built_in_profiles_are_whole(name: str) -> None:
    profile = load(name)
    assert profile.name == name
    assert "base" in profile.arms
    assert not compose(profile, "base").drafted
    assert profile.judged_arms
    for arm in profile.judged_arms:
        assert compose(profile, arm).drafted


def test_one_of_ones_own(write: Path) -> None:
    write.write_text(WHOLE, "utf-8")
    profile = load(str(write))
    assert (profile.name, profile.origin) == ("mine", str(write))
    assert profile.server_flags == {"--ctx-size": 4096, "--metrics": True}
    assert (profile.ready_timeout_s, profile.stall_timeout_s, profile.stop_timeout_s) == (1.0, 2.0, 3.0)
    assert profile.workloads == {"mixed": {"n_predict": 16}}


def test_an_extension_lies_over_its_parent_table_by_table(tmp_path: Path) -> None:
    small = load(str(small_profile(tmp_path, "[server.flags]\nctx-size = 512\n")))
    tiny = load("tiny")
    assert small.judged_arms == ("dflash2",)
    assert small.workloads["mixed"] == {**tiny.workloads["mixed"], "prompts": 2, "n_predict": 24}
    assert small.workloads["width"] == tiny.workloads["width"]
    assert small.server_flags == {**tiny.server_flags, "--ctx-size": 512}
    assert small.arms == tiny.arms


def test_a_parent_is_looked_for_beside_its_child(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "mine.toml").write_text(WHOLE, "utf-8")
    (tmp_path / "folder" / "child.toml").write_text('extends = "../mine.toml"\nname = "child"\n', "utf-8")
    assert load(str(tmp_path / "folder" / "child.toml")).name == "child"


def test_a_circle_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('extends = "b.toml"\n')
    (tmp_path / "b.toml").write_text(f'extends = "../{tmp_path.name}/a.toml"\n')
    with pytest.raises(ProfileError, match=r"it extends itself: .*a\.toml → .*b\.toml → .*a\.toml"):
        load(str(tmp_path / "a.toml"))


@pytest.mark.parametrize("name", ["tini", "qwen3.8-27", "/no/such/file.toml"])
def test_one_that_does_not_exist(name: str) -> None:
    with pytest.raises(ProfileError) as caught:
        load(name)
    told = str(caught.value)
    assert "neither a built-in profile nor a readable file" in told
    assert "built in: tiny, qwen3.8-27b, qwen3.6-27b" in told
    assert ("did you mean" in told) == (not name.startswith("/"))


def test_a_file_that_is_no_toml_or_no_text(write: Path) -> None:
    assert "it is not TOML" in refused(write, "name = \n")
    write.write_bytes(b"\xff\xfe")
    with pytest.raises(ProfileError, match="nor a readable file"):
        load(str(write))
    with pytest.raises(ProfileError, match="nor a readable file"):
        load(str(write.parent))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("about =", "abuot =", "abuot: unknown key; did you mean 'about'?"),
        ("ready_timeout_s", "redy_timeout_s", "server.redy_timeout_s: unknown key; did you mean 'ready_timeout_s'?"),
        ("spec_types", "spec_type", "arms.dflash2.spec_type: unknown key; did you mean 'spec_types'?"),
        ("n_predict", "n_predictions", "workloads.mixed.n_predictions: unknown key; did you mean 'n_predict'?"),
        ("[arms.base]\n", "", "'base' is a required property"),
        ("n_max = 7", "n_max = 0", "arms.dflash2.n_max"),
        ("n_max = 7", 'n_max = "7"', "arms.dflash2.n_max"),
        ("ctx-size", "--ctx-size", "--ctx-size"),
        ('families = ["dflash2"]', 'families = ["dflash3"]', "'dflash3' is not one of"),
        ("ready_timeout_s = 1", "ready_timeout_s = 0", "server.ready_timeout_s"),
        ('target = "target.gguf"\n', "", "'target' is a required property"),
        ('name = "mine"', "extends = 5", "extends"),
        ('drafter = "drafter"', 'drafter = "darfter"', "there is no model 'darfter'; did you mean 'drafter'?"),
        (
            'judged_arms = ["dflash2"]',
            'judged_arms = ["dflash1"]',
            "there is no arm 'dflash1'; did you mean 'dflash2'?",
        ),
        ("n_max = 7", 'parts = ["k4v"]', "there is no part 'k4v'"),
    ],
)
def test_a_mistake_is_named_with_its_place(write: Path, old: str, new: str, words: str) -> None:
    assert old in WHOLE
    told = refused(write, WHOLE.replace(old, new, 1))
    assert words in told
    assert "remedy:" in told


def test_the_flags_of_a_file_are_told_from_those_of_the_built_in_profile_below(tmp_path: Path) -> None:
    assert load("tiny").own_flags == frozenset()
    middle = small_profile(tmp_path, "[server.exact]\nthreads = 1\n[parts.wide.flags]\nspec-draft-n-min = 2\n")
    path = tmp_path / "mine.toml"
    own = "[arms.dflash2.flags]\nspec-draft-p-mn = 0.1\nno-mmap = false\n"
    path.write_text(f'extends = "{middle.name}"\nname = "mine"\n{own}', "utf-8")
    assert load(str(path)).own_flags == {"--threads", "--spec-draft-n-min", "--spec-draft-p-mn"}
