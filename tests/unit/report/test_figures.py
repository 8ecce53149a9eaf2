"""The flat table of a run's figures."""

from __future__ import annotations

import csv
import io
from typing import Any

from pytest_specdec.report.figures import figure_rows, figures_csv

CELL = {"generations": 8, "valid": 7, "tokens_per_s": 100.5, "cycles_per_s": 25.0, "tokens_per_cycle": 4.0}
RESULTS: dict[str, Any] = {
    "run": "r1",
    "profile": "tiny",
    "device": "cpu",
    "build": {"number": 11549, "version": "1.0"},
    "verdicts": [
        {
            "claim": "speedup.code",
            "status": "pass",
            "evidence": {
                "figure": "throughput", "workload": "code", "arm": "dflash2 / base", "ratio": 2.0, "low": 1.9,
                "high": 2.1, "pairs": 8, "cells": {"speed/code/dflash2": CELL, "speed/code/dflash2/again": CELL},
            },
        },
        {"claim": "tokens_per_cycle[dflash2]", "status": "pass", "evidence": {"value": 4.0, "unit": "tokens"}},
        {"claim": "noise", "status": "void", "evidence": {"cells": {"speed/code/dflash2": CELL}}},
        {"claim": "lossless", "status": "pass", "evidence": {}},
    ],
}  # fmt: skip


def test_one_row_for_each_figure_and_each_cell_once() -> None:
    rows = list(figure_rows(RESULTS))
    assert [(row.claim, row.figure, row.value, row.n) for row in rows[:2]] == [
        ("speedup.code", "throughput", 2.0, 8),
        ("tokens_per_cycle[dflash2]", "value", 4.0, None),
    ]
    cells = [(row.arm, row.role, row.figure) for row in rows[2:]]
    assert len(cells) == len(set(cells)) == 6, "acceptance is unknown, so it has no row"
    assert {row.build for row in rows} == {"b11549"}


def test_it_reads_back_as_csv() -> None:
    read = list(csv.DictReader(io.StringIO(figures_csv(figure_rows(RESULTS)))))
    assert read[0]["low"] == "1.9"
    assert read[1]["low"] == ""
    assert read[2]["workload"] == "code"
