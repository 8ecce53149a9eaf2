"""Which draft width is fastest, on cold long prompts: ordering claims between arms of one panel."""

import pytest

from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge


@pytest.mark.claim("width.five_beats_seven", source="study 7", arm="dflash2@5", over="dflash2", on="code-8k")
def test_five_beats_seven(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("width.six_beats_seven", source="study 7", arm="dflash2@6", over="dflash2", on="code-8k")
def test_six_beats_seven(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("pmin.throughput", source="study 12", arm="dflash2", over="dflash2+pmin85", on="code")
def test_leaving_p_min_at_zero_costs_nothing(contrast: ContrastView, baseline: BaselineJudge) -> None:
    """True where the flag is ignored, and truer where it acts and drafts less."""
    baseline.holds(contrast.throughput)
