"""Greedy speculative decoding does not change one token."""

import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.comparing import Lossless


@pytest.mark.claim("lossless.greedy", source="study 15", kind="lossless", each="judged", over="base", on="mixed")
def test_greedy_output_is_that_of_the_target_alone(arm: str, cells: CellMap, lossless: Lossless) -> None:
    lossless.same(cells["base"], cells[arm])
