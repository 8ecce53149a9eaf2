"""One flag, several answers: both lookup tables appended to DFlash 2, on texts of different kinds."""

import pytest

from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge

BOTH = "dflash2+mod+k4v"


@pytest.mark.claim("lookups.code", source="study 6", arm=BOTH, over="dflash2", on="code")
def test_lookups_change_little_on_code(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("lookups.prose_loses", source="study 6", arm="dflash2", over=BOTH, on="prose")
def test_lookups_lose_on_prose(contrast: ContrastView, baseline: BaselineJudge) -> None:
    """Stated as what leaving them out gains."""
    baseline.holds(contrast.throughput)


@pytest.mark.claim("lookups.synthetic", source="study 6", arm=BOTH, over="dflash2", on="synthetic")
def test_lookups_win_on_forced_lengths(contrast: ContrastView, baseline: BaselineJudge) -> None:
    """Never to be quoted: forced past its natural stop a model falls into loops, which lookups copy. Loops are void."""
    baseline.holds(contrast.throughput)
