"""The author's July run with DFlash 1: block 16, where both lookup tables together won."""

import pytest

from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge

SOURCE = "study, July"


@pytest.mark.claim("dflash1.session", source=SOURCE, arm="dflash1", over="base", on="session", group="build")
def test_dflash1_alone(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim(
    "dflash1.both_beat_k4v", source=SOURCE, arm="dflash1+mod+k4v", over="dflash1+k4v", on="session", group="build"
)
def test_both_tables_beat_the_map_alone(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("dflash1.lookups.code", source=SOURCE, arm="dflash1+mod+k4v", over="dflash1", on="code")
def test_lookups_change_little_on_code(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("dflash1.fifteen_beat_four", source=SOURCE, arm="dflash1", over="dflash1@4", on="code-8k")
def test_wide_drafts_beat_narrow_ones(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("dflash1.depth.1", source=SOURCE, arm="dflash1", over="base", on="context-1")
def test_on_the_shortest_context(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("dflash1.depth.2", source=SOURCE, arm="dflash1", over="base", on="context-2")
def test_on_the_second_context(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)
