"""The noise floor: an arm against itself, measured like any two arms."""

import pytest

from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge


@pytest.mark.claim("noise.dflash2", source="study, conditions", arm="dflash2", over="dflash2", on="code")
def test_an_arm_is_as_fast_as_itself(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)
