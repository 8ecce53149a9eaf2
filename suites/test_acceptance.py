"""The drafters draft, and the target accepts as much as it did when it was recorded."""

import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.judge import BaselineJudge, Judge
from pytest_specdec.records import FigureKind, Reason


@pytest.mark.claim("drafts", source="upstream reports", each="judged", on="mixed")
def test_the_drafter_really_drafts(arm: str, cells: CellMap, claim: Judge) -> None:
    cell = cells[arm]
    claim.holds(
        cell.drafted > 0 and cell.accepted > 0,
        measured=f"{cell.drafted} drafted, {cell.accepted} accepted in {cell.drafts} drafts",
        expected="drafts, some of them accepted",
        otherwise=Reason.DRAFTER_IDLE,
        evidence={"drafted": cell.drafted, "accepted": cell.accepted, "drafts": cell.drafts},
    )


@pytest.mark.claim("tokens_per_cycle", source="own record", each="judged", on="mixed")
def test_tokens_per_cycle_are_as_recorded(arm: str, cells: CellMap, claim: Judge, baseline: BaselineJudge) -> None:
    claim.valid(cells[arm], FigureKind.ACCEPTANCE)
    baseline.holds(cells[arm].tokens_per_cycle, unit="tokens per cycle")
