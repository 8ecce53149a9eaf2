"""Arms compose: parts go behind, widths are set, and what is not there is named with what is near."""

from __future__ import annotations

import pytest

from pytest_specdec.errors import ProfileError
from pytest_specdec.profile import compose, load, recorded_as

TINY = load("tiny")


def test_parts_and_width() -> None:
    arm = compose(TINY, "dflash2+k4v@5")
    assert arm.name == "dflash2+k4v@5"
    assert arm.families == ("dflash2", "ngram")
    assert arm.spec_types == ("draft-dflash", "ngram-map-k4v")
    assert arm.n_max == 5
    assert arm.drafter == "dflash2"
    assert arm.looks_up
    assert arm.flags["--spec-ngram-map-k4v-size-n"] == 3


def test_a_part_of_flags_replaces_those_of_the_arm() -> None:
    assert compose(TINY, "dflash2").flags["--spec-draft-p-min"] == 0.0
    assert compose(TINY, "dflash2+pmin85").flags["--spec-draft-p-min"] == 0.85
    assert compose(TINY, "dflash2").flags["--spec-draft-p-min"] == 0.0


def test_the_order_of_the_parts_is_the_order_of_the_drafters() -> None:
    assert compose(TINY, "dflash2+mod+k4v").spec_types == ("draft-dflash", "ngram-mod", "ngram-map-k4v")
    assert compose(TINY, "dflash2+k4v+k4v").spec_types == compose(TINY, "dflash2+k4v").spec_types


def test_base_drafts_nothing() -> None:
    base = compose(TINY, "base")
    assert (base.drafted, base.looks_up, base.families) == (False, False, ())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dflash3", "there is no arm 'dflash3'; did you mean 'dflash2'?"),
        ("zzz", "there is no arm 'zzz'; it has: base"),
        ("dflash2+pmin86", "there is no part 'pmin86'; did you mean 'pmin85'?"),
        ("dflash2+k4v@", "not of the form ARM"),
        ("dflash2@5+k4v", "not of the form ARM"),
        ("dflash2@x", "not of the form ARM"),
        ("", "not of the form ARM"),
        ("+k4v", "not of the form ARM"),
        ("base@5", "'base' has no n_max"),
        ("ngram@5", "'ngram' has no n_max"),
    ],
)
def test_what_cannot_be_composed_is_told(name: str, words: str) -> None:
    with pytest.raises(ProfileError) as caught:
        compose(TINY, name)
    assert words in str(caught.value)
    assert "of the profile tiny" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "recorded"),
    [
        ("dflash2", "dflash2"),
        ("dflash2@5", "dflash2"),
        ("dflash2+pmin85@5", "dflash2"),
        ("dflash2+k4v+pmin85", "dflash2+k4v"),
        ("dflash2+mod+k4v@3", "dflash2+mod+k4v"),
    ],
)
def test_the_arm_that_has_the_records_is_the_one_with_the_same_drafters(name: str, recorded: str) -> None:
    assert recorded_as(TINY, name) == recorded
