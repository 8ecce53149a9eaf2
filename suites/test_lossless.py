"""Greedy speculative decoding does not change one token."""

import pytest

from pytest_specdec import lossless
from pytest_specdec.asking import CellMap
from pytest_specdec.judge import Judge


@pytest.mark.claim("lossless.greedy", source="study 15", kind="lossless", each="judged", over="base", on="mixed")
def test_greedy_output_is_that_of_the_target_alone(arm: str, cells: CellMap, claim: Judge) -> None:
    claim.judge(lossless.judge(cells["base"], cells[arm]))
