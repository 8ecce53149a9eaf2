"""Two sides of a contrast that ran at other clocks decide nothing about speed."""

from __future__ import annotations

import pytest

from pytest_specdec.measure.pair_guards import clocks_apart
from pytest_specdec.records import Cell, CellKey, Json, Mode, Reason
from tests.support import generation


def cell(arm: str, *told: dict[str, Json]) -> Cell:
    key = CellKey(Mode.SPEED, "code", arm)
    return Cell(key, tuple(generation(cell=key, prompt_id=f"p{n}", device=row) for n, row in enumerate(told)))


def clocks(sm: float, memory: float = 14000.0, capped: float = 0.0) -> dict[str, Json]:
    return {"sm_clock_mhz": sm, "memory_clock_mhz": memory, "power_capped_share": capped}


@pytest.mark.parametrize(
    ("candidate", "apart"),
    [
        ([clocks(2400), clocks(2385)], False),
        ([clocks(2200), clocks(2200)], True),
        ([clocks(2200, capped=0.3), clocks(2200)], False),  # at the power limit a lower clock is part of its speed
        ([clocks(2400, memory=7000)], True),
        ([clocks(2400), clocks(1200), clocks(2400)], False),  # the middle one counts: a hiccup is no drift
        ([{}], False),
        ([], False),
    ],
)
def test_clocks_that_no_power_limit_explains(candidate: list[dict[str, Json]], apart: bool) -> None:
    void = clocks_apart(cell("base", clocks(2400), clocks(2400)), cell("dflash2", *candidate))
    assert (void is not None) is apart
    if void is not None:
        assert void.reason is Reason.CLOCK_DRIFT
        assert "dflash2: SM clock" in void.detail
