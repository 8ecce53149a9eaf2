"""Whether ``--spec-draft-p-min`` acts on a drafter, from what was drafted: the banner prints the flag either way."""

import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.judge import BaselineJudge
from pytest_specdec.records import Reason

PAIRS = {"dflash2": ("dflash2@7", "dflash2+pmin85@7"), "mtp": ("mtp@3", "mtp+pmin85@3")}


@pytest.mark.claim("pmin.dflash2", source="study 12", arms=PAIRS["dflash2"], on="width")
def test_p_min_on_dflash2(cells: CellMap, baseline: BaselineJudge) -> None:
    _judge(PAIRS["dflash2"], cells, baseline)


@pytest.mark.claim("pmin.mtp", source="study 13", arms=PAIRS["mtp"], on="width")
def test_p_min_on_mtp(cells: CellMap, baseline: BaselineJudge) -> None:
    _judge(PAIRS["mtp"], cells, baseline)


def _judge(arms: tuple[str, str], cells: CellMap, baseline: BaselineJudge) -> None:
    without, with_p_min = (cells[name] for name in arms)
    same = all(a.counters == b.counters for a, b in zip(without.generations, with_p_min.generations, strict=True))
    narrower = with_p_min.draft_width < without.draft_width
    baseline.behaves(
        "ignored" if same else "honoured" if narrower else "widened",
        measured=f"width {without.draft_width:.2f} → {with_p_min.draft_width:.2f} at 0.85",
        otherwise=Reason.BEHAVIOUR_CHANGED,
        evidence={"width_at_0": without.draft_width, "width_at_0.85": with_p_min.draft_width},
    )
