"""A build against the one before, arm by arm: judged with ``--llama-server-base``, needs no stored baseline."""

import pytest

from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge


@pytest.mark.claim(
    "parity.speed", source="study 14", kind="speed", each=["base", "dflash2", "mtp"], on="code", across_builds=True
)
@pytest.mark.usefixtures("arm")
def test_no_arm_became_slower(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)
