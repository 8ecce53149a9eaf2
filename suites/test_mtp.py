"""Multi-token prediction: its peak, and a flag that works and does not pay."""

import pytest

from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge


@pytest.mark.claim("mtp.speedup", source="study 9", arm="mtp@4", over="base", on="code")
def test_mtp_at_its_peak(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("mtp.four_beats_two", source="study 9", arm="mtp@4", over="mtp@2", on="code")
def test_four_beats_two(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("mtp.four_beats_eight", source="study 9", arm="mtp@4", over="mtp@8", on="code")
def test_four_beats_eight(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("mtp.pmin_does_not_pay", source="study 13", arm="mtp@3", over="mtp+pmin85@3", on="code")
def test_p_min_works_on_mtp_and_does_not_pay(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)
