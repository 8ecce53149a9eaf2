"""The text of ``/metrics`` as numbers, and what one request added to them."""

from __future__ import annotations

import pytest

from pytest_specdec.records import Counters
from pytest_specdec.server.metrics import Totals, delta, parse

TEXT = """# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 57
llamacpp:tokens_predicted_total 96
llamacpp:predicted_tokens_seconds 812.5
llamacpp:spec_decode_num_drafts_total 20
llamacpp:spec_decode_num_draft_tokens_total 134
llamacpp:spec_decode_num_accepted_tokens_total 70
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="10"} 1
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 40
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="2"} 29
"""


def test_the_counters_of_speculation_by_position() -> None:
    assert parse(TEXT) == Totals(20, 134, 70, 96, (40, 29, 1))


def test_positions_need_not_be_there() -> None:
    without = "\n".join(line for line in TEXT.splitlines() if "per_pos" not in line)
    assert parse(without).accepted_per_position == ()


@pytest.mark.parametrize("name", ["num_drafts", "num_draft_tokens", "num_accepted_tokens"])
def test_a_counter_that_is_missing_is_named(name: str) -> None:
    text = TEXT.replace(f"spec_decode_{name}_total", "something_else_total")
    with pytest.raises(KeyError, match=f"spec_decode_{name}"):
        parse(text)


@pytest.mark.parametrize("value", ["1.23457e+06", "nan", "96.5", "-3"])
def test_a_counter_that_is_no_longer_exact_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="tokens_predicted reads"):
        parse(TEXT.replace("predicted_total 96", f"predicted_total {value}"))


def test_a_rounded_position_is_refused_too() -> None:
    with pytest.raises(ValueError, match=r"1\.5e"):
        parse(TEXT.replace('{position="0"} 40', '{position="0"} 1.5e+06'))


def test_what_one_request_added() -> None:
    before, after = Totals(20, 134, 70, 96, (40, 29)), Totals(25, 169, 90, 128, (45, 39, 5))
    assert delta(before, after) == Counters(5, 35, 20, 32, (5, 10, 5))


def test_a_restart_shows_as_less_than_nothing() -> None:
    assert delta(Totals(20, 134, 70, 96, ()), Totals(1, 7, 2, 9, ())).drafts < 0
