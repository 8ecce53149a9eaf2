"""Each arm's speed as a benchmark of pytest-benchmark, to be saved, compared and drawn with its own options.

``pytest suites/test_cells.py --benchmark-json=cells.json``; a long replay, so no family's gate includes it.
"""

from collections.abc import Callable

import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.integrations.benchmark import CLOCK
from pytest_specdec.judge import Judge
from pytest_specdec.records import Cell, FigureKind


@pytest.mark.benchmark(timer=CLOCK)
@pytest.mark.claim("cell.code", source="report", kind="speed", each=["base", "judged"], on="code", study=True)
def test_seconds_per_token(arm: str, cells: CellMap, claim: Judge, as_benchmark: Callable[[Cell], None]) -> None:
    claim.valid(cells[arm], FigureKind.SPEED)
    as_benchmark(cells[arm])
