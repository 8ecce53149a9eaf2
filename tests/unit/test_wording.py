"""How numbers stand in sentences."""

from __future__ import annotations

import pytest

from pytest_specdec.wording import counted, lasting


@pytest.mark.parametrize(("number", "expected"), [(0, "0 claims"), (1, "1 claim"), (2, "2 claims")])
def test_a_noun_agrees_with_its_number(number: int, expected: str) -> None:
    assert counted(number, "claim") == expected


def test_a_plural_may_be_of_its_own() -> None:
    assert (counted(1, "entry", "entries"), counted(3, "entry", "entries")) == ("1 entry", "3 entries")


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, "0 s"), (59.0, "59 s"), (60.0, "1.0 min"), (186.0, "3.1 min")])
def test_short_times_are_in_seconds(seconds: float, expected: str) -> None:
    assert lasting(seconds) == expected
