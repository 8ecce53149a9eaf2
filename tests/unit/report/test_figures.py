"""The flat table of a run's figures."""

from __future__ import annotations

import csv
import io
from typing import Any

from pytest_specdec.report.data import ReportData, report_of
from pytest_specdec.report.figures import FigureRow, figure_rows, figures_csv
from tests.unit.report.hostile import HOSTILE, hostile_report
from tests.unit.report.test_data import document

CELL = {"generations": 8, "valid": 7, "tokens_per_s": 100.5, "cycles_per_s": 25.0, "tokens_per_cycle": 4.0}
CONTRAST = {
    "figure": "throughput", "workload": "code", "arm": "dflash2 / base", "ratio": 2.0, "low": 1.9, "high": 2.1,
    "pairs": 8, "tokens_per_cycle_ratio": 4.0, "margin": 0.05,
    "cells": {"speed/code/dflash2": CELL, "speed/code/dflash2/again": CELL},
}  # fmt: skip


def report(*evidence: dict[str, Any], **build: Any) -> ReportData:
    """A run whose claims c0, c1 … found this."""
    made = document()
    verdicts = [made["verdicts"][0] | {"claim": f"c{n}", "evidence": found} for n, found in enumerate(evidence)]
    return report_of(made | {"verdicts": verdicts, "build": made["build"] | build}, "")


def rows(*evidence: dict[str, Any], **build: Any) -> list[FigureRow]:
    return list(figure_rows(report(*evidence, **build)))


def table(report: ReportData) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(figures_csv(figure_rows(report)))))


def test_a_contrast_has_its_interval_and_its_exact_part_has_none() -> None:
    throughput, exact = rows({**CONTRAST, "cells": {}})
    assert (throughput.figure, throughput.value, throughput.unit) == ("throughput", 2.0, "×")
    assert (throughput.low, throughput.high, throughput.n) == (1.9, 2.1, 8)
    assert (exact.figure, exact.value, exact.unit) == ("tokens_per_cycle_ratio", 4.0, "×")
    assert (exact.low, exact.high, exact.n) == (None, None, None)
    assert {(row.claim, row.status, row.workload, row.arm) for row in (throughput, exact)} == {
        ("c0", "pass", "code", "dflash2 / base")
    }


def test_one_value_leaves_out_what_it_was_compared_with() -> None:
    found = rows({"value": 4.0, "unit": "tokens per cycle", "recorded": 4.1, "tolerance": 0.05})
    assert [(row.figure, row.value, row.unit) for row in found] == [("value", 4.0, "tokens per cycle")]


def test_an_exact_claim_gives_all_its_numbers() -> None:
    found = rows({"width_at_0": 6.5, "drafts": 0, "problems": [], "ok": True, "prompt": "x", "missing": None})
    assert [(row.figure, row.value) for row in found] == [("width_at_0", 6.5), ("drafts", 0)]


def test_each_cell_once_whatever_claims_it_served() -> None:
    found = rows({"cells": CONTRAST["cells"]}, CONTRAST)
    cells = [(row.workload, row.arm, row.role, row.figure) for row in found if not row.claim]
    assert len(cells) == len(set(cells)) == 6, "acceptance is unknown, so it has no row"
    assert {(workload, arm, role) for workload, arm, role, _ in cells} == {
        ("code", "dflash2", "new"),
        ("code", "dflash2", "again"),
    }
    assert {(row.status, row.n) for row in found if not row.claim} == {("", 7)}


def test_a_contrast_without_pairs_has_no_figure() -> None:
    assert rows({"figure": "throughput", "ratio": None, "low": None, "high": None, "pairs": 0}) == []


def test_evidence_that_is_not_as_expected_has_no_row() -> None:
    odd: list[dict[str, Any]] = [
        {"cells": [1]},
        {"cells": {"code": CELL}},
        {"cells": {"a/b/c": 7}},
        {"value": "4"},
        {"value": 10**400},
    ]
    assert rows(*odd, {"ratio": float("nan")}, {"value": float("inf")}, {"value": True}) == []


def test_a_build_without_a_number_goes_by_its_version() -> None:
    assert {row.build for row in rows({"value": 1.0})} == {"b1"}
    assert {row.build for row in rows({"value": 1.0}, number=None)} == {"v"}


def test_it_reads_back_as_csv() -> None:
    read = table(report(CONTRAST, {"value": -4.0}))
    assert (read[0]["value"], read[0]["low"], read[0]["n"]) == ("2.0", "1.9", "8")
    assert read[1]["low"] == ""
    assert read[2]["value"] == "-4.0", "a negative number is no formula"


def test_a_run_without_figures_is_a_header_alone() -> None:
    assert figures_csv(figure_rows(report({}))).splitlines() == [
        "run,profile,device,build,workload,arm,role,claim,figure,value,low,high,n,unit,status"
    ]


def test_no_text_of_a_stranger_is_a_formula_or_breaks_a_row() -> None:
    formulas = ("=HYPERLINK(1)", "+1", "-1", "@x", " =1", "\t=1", "\x1b[2J=1")
    for text in (*formulas, *HOSTILE):
        (row,) = table(report({"value": 1.0, "unit": text}, number=None, version=text))
        assert not {row["unit"][:1], row["build"][:1]} & set("=+-@\t ")
        assert not set(row["unit"]) & set("\n\r\x1b")
    assert table(hostile_report()) == [], "texts alone are no figures"
