"""Whatever a request asks of the sampler, drafts do not change the answer."""

import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.comparing import Lossless


@pytest.mark.claim(
    "lossless.grammar", source="upstream reports", kind="lossless", each="judged", over="base", on="requests"
)
def test_grammar(arm: str, cells: CellMap, lossless: Lossless) -> None:
    lossless.same(cells["base"], cells[arm], "grammar")


@pytest.mark.claim(
    "lossless.schema", source="upstream reports", kind="lossless", each="judged", over="base", on="requests"
)
def test_json_schema(arm: str, cells: CellMap, lossless: Lossless) -> None:
    lossless.same(cells["base"], cells[arm], "schema")


@pytest.mark.claim(
    "lossless.tool", source="upstream reports", kind="lossless", each="judged", over="base", on="requests"
)
def test_tool_call_format(arm: str, cells: CellMap, lossless: Lossless) -> None:
    lossless.same(cells["base"], cells[arm], "tool")


@pytest.mark.claim(
    "lossless.stop", source="upstream reports", kind="lossless", each="judged", over="base", on="requests"
)
def test_stop_strings_inside_a_draft(arm: str, cells: CellMap, lossless: Lossless) -> None:
    lossless.same(cells["base"], cells[arm], "stop")


@pytest.mark.claim(
    "lossless.bias", source="upstream reports", kind="lossless", each="judged", over="base", on="requests"
)
def test_logit_bias(arm: str, cells: CellMap, lossless: Lossless) -> None:
    lossless.same(cells["base"], cells[arm], "bias")


@pytest.mark.claim(
    "lossless.penalty", source="upstream reports", kind="lossless", each="judged", over="base", on="requests"
)
def test_penalties(arm: str, cells: CellMap, lossless: Lossless) -> None:
    lossless.same(cells["base"], cells[arm], "penalty")


@pytest.mark.claim(
    "lossless.seed", source="upstream reports", kind="lossless", each="judged", over="base", on="requests"
)
def test_the_same_seed_at_a_temperature(arm: str, cells: CellMap, lossless: Lossless) -> None:
    lossless.same_seed(cells["base"], cells[arm], "seed")
