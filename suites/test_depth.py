"""Decoding at depth: forced lengths behind contexts that grow. Synthetic, so never to be quoted as a speed-up."""

import pytest

from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge


@pytest.mark.claim("depth.dflash2.1", source="study 11", arm="dflash2", over="base", on="context-1")
def test_on_the_shortest_context(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("depth.dflash2.2", source="study 11", arm="dflash2", over="base", on="context-2")
def test_on_the_second_context(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("depth.dflash2.3", source="study 11", arm="dflash2", over="base", on="context-3", study=True)
def test_on_the_third_context(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("depth.dflash2.4", source="study 11", arm="dflash2", over="base", on="context-4", study=True)
def test_on_the_deepest_context(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)
