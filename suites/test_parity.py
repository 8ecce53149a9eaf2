"""Two builds say and count the same: judged with ``--llama-server-base``, needs no stored baseline."""

import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.comparing import Lossless
from pytest_specdec.judge import Judge
from pytest_specdec.parity import Builds, counters_parity, tokens_parity
from pytest_specdec.prefix import CommonPrefix

ARMS = ["base", "judged"]


@pytest.mark.claim(
    "parity.tokens", source="study 14", kind="lossless", each=ARMS, over="base", on="mixed", across_builds=True
)
def test_both_builds_say_the_same(arm: str, cells: CellMap, claim: Judge, lossless: Lossless) -> None:
    builds = _builds(arm, cells)
    claim.judge(tokens_parity(builds, lossless.noise.large_batch))


@pytest.mark.claim(
    "parity.counters", source="study 14", kind="exact", each=ARMS, over="base", on="mixed", across_builds=True
)
def test_both_builds_count_the_same(arm: str, cells: CellMap, claim: Judge, prefixes: CommonPrefix) -> None:
    claim.judge(counters_parity(prefixes.of(_builds(arm, cells))))


def _builds(arm: str, cells: CellMap) -> Builds:
    old = cells.base_build
    return Builds(old[arm], cells[arm], old["base"], cells["base"])
