"""What a drafter costs before the first token, by depth. Rung 1 of the ladder is the shortest."""

from collections.abc import Callable
from statistics import median

import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge
from pytest_specdec.records import Cell, FigureKind, Generation


@pytest.mark.claim("prefill.dflash2.1", source="study 10", arm="dflash2", over="base", on="prefill-1", figure="prefill")
def test_prefill_with_dflash2_on_short_prompts(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.prefill)


@pytest.mark.claim("prefill.dflash2.3", source="study 10", arm="dflash2", over="base", on="prefill-3", figure="prefill")
def test_its_relative_cost_shrinks_with_depth(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.prefill)


@pytest.mark.claim("prefill.control.1", source="study 10", arm="ngram", over="base", on="prefill-1", figure="prefill")
def test_lookups_cost_no_prefill(contrast: ContrastView, baseline: BaselineJudge) -> None:
    """The control: what it shows is the drafter and not drift."""
    baseline.holds(contrast.prefill)


@pytest.mark.claim("prefill.mtp.1", source="study 10", arm="mtp", over="base", on="prefill-1", figure="prefill")
def test_prefill_with_mtp(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.prefill)


@pytest.mark.claim(
    "prefill.first_token.1", source="study 10", arm="dflash2", over="base", on="prefill-1", figure="first_token"
)
def test_time_to_first_token(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.first_token)


@pytest.mark.claim(
    "prefill.payback.1", source="study 10", kind="speed", arms=["base", "dflash2"], on=["prefill-1", "code"]
)
def test_prefill_is_paid_back_after_a_few_tokens(cells: CellMap, baseline: BaselineJudge) -> None:
    """Tokens of code: behind a filler text that a drafter does not know nothing is paid back."""
    baseline.holds(
        _payback_tokens(cells.on("prefill-1"), cells.on("code")), unit="tokens", tolerance=0.5, direction="lower"
    )


def _payback_tokens(prefill: CellMap, decode: CellMap) -> float:
    """Output tokens after which the faster decode has made up for the slower prefill."""
    extra_ms = _median(prefill["dflash2"], _prefill_ms) - _median(prefill["base"], _prefill_ms)
    saved_ms = _median(decode["base"], _ms_per_token) - _median(decode["dflash2"], _ms_per_token)
    return max(0.0, extra_ms) / saved_ms if saved_ms > 0 else float("inf")


def _prefill_ms(generation: Generation) -> float:
    return generation.timings.prompt_ms


def _ms_per_token(generation: Generation) -> float:
    return generation.timings.predicted_ms / max(1, generation.timings.predicted_n - 1)


def _median(cell: Cell, figure: Callable[[Generation], float]) -> float:
    """Over the valid replies; NaN without any."""
    values = [figure(g) for g in cell.valid_for(FigureKind.SPEED)]
    return median(values) if values else float("nan")
