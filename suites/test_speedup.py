"""Single-turn code: what a drafter gains where it gains most surely."""

import pytest

from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge


@pytest.mark.claim("speedup.code", source="study 1", arm="dflash2", over="base", on="code")
def test_dflash2_doubles_single_turn_code(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("speedup.code.itl", source="study 1", arm="dflash2", over="base", on="code", figure="token_gap")
def test_tokens_come_faster_one_after_the_other(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.token_gap)


@pytest.mark.claim("speedup.recommended", source="study, recommended", arm="dflash2@5", over="base", on="code")
def test_the_recommended_single_turn_configuration(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim(
    "speedup.dflash2_over_dflash1", source="study 3", arm="dflash2", over="base", against="dflash1@7", on="code"
)
def test_dflash2_gains_more_than_dflash1_at_the_same_width(contrast: ContrastView, baseline: BaselineJudge) -> None:
    """A ratio of two contrasts, each over its own target's base: absolute speeds of two targets do not compare."""
    baseline.holds(contrast.throughput)
