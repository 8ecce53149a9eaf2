"""Single-turn code: what a drafter gains where it gains most surely."""

import pytest

from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge


@pytest.mark.claim("speedup.code", source="study 1", arm="dflash2", over="base", on="code")
def test_dflash2_speeds_up_single_turn_code(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)
