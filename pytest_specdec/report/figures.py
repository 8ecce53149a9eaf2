"""All figures of a run as one flat table, a row for each, for spreadsheets and dashboards."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TypeGuard

from pytest_specdec.records import Json, Verdict
from pytest_specdec.report.data import ReportData
from pytest_specdec.report.escape import spreadsheet_text

__all__ = ["FigureRow", "figure_rows", "figures_csv"]

_OF_A_CELL = ("tokens_per_s", "cycles_per_s", "tokens_per_cycle", "acceptance")
_LEAST_PARTS = 3  # of a cell's name: mode/workload/arm, with the build's role where it is not the new one


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure. ``claim`` and ``status`` are empty for a figure of a cell, ``low`` and ``high`` without an interval.

    ``n``: pairs of a contrast, valid generations of a cell. ``role``: of the build, ``again`` for the second side of
    A/A.
    """

    run: str
    profile: str
    device: str
    build: str
    workload: str
    arm: str
    role: str
    claim: str
    figure: str
    value: float
    low: float | None
    high: float | None
    n: int | None
    unit: str
    status: str


def figure_rows(report: ReportData) -> Iterator[FigureRow]:
    """What each verdict measured, then each cell once.

    The evidence may have been written by anybody: what is not as expected has no row.
    """
    cells: dict[str, Mapping[str, Json]] = {}
    for verdict in report.verdicts:
        yield from _of_verdict(report, verdict)
        cells |= _cells_of(verdict)
    for key, figures in sorted(cells.items()):
        _, workload, arm, *role = key.split("/")
        for name in _OF_A_CELL:
            if _is_number(figures.get(name)):
                yield FigureRow(
                    **_run_of(report), workload=workload, arm=arm, role=role[0] if role else "new", claim="",
                    figure=name, value=figures[name], low=None, high=None, n=_count(figures.get("valid")), unit="",
                    status="",
                )  # fmt: skip


def figures_csv(rows: Iterable[FigureRow]) -> str:
    """The rows as CSV with a header; what a figure does not have is empty, and no text is read as a formula."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(FigureRow)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        columns = asdict(row).items()
        writer.writerow({name: spreadsheet_text(value) if isinstance(value, str) else value for name, value in columns})
    return text.getvalue()


def _of_verdict(report: ReportData, verdict: Verdict) -> Iterator[FigureRow]:
    evidence = verdict.evidence
    for figure, value, unit in _measured(evidence):
        if not _is_number(value):
            continue
        of_contrast = evidence if figure == evidence.get("figure") else {}  # whose interval and pairs they are
        yield FigureRow(
            **_run_of(report), workload=str(evidence.get("workload", "")), arm=str(evidence.get("arm", "")), role="new",
            claim=verdict.claim, figure=figure, value=value, low=_number(of_contrast.get("low")),
            high=_number(of_contrast.get("high")), n=_count(of_contrast.get("pairs")), unit=unit,
            status=verdict.status.value,
        )  # fmt: skip


def _measured(evidence: Mapping[str, Json]) -> Iterator[tuple[str, Json, str]]:
    """Name, value and unit of each: a contrast with its exact part, a single value, or else whatever is a number."""
    if "ratio" in evidence:
        yield str(evidence.get("figure")), evidence["ratio"], "×"
        yield "tokens_per_cycle_ratio", evidence.get("tokens_per_cycle_ratio"), "×"
    if "value" in evidence:
        yield "value", evidence["value"], str(evidence.get("unit", ""))
    if not {"ratio", "value"} & evidence.keys():
        yield from ((name, value, "") for name, value in evidence.items())


def _cells_of(verdict: Verdict) -> dict[str, Mapping[str, Json]]:
    cells = verdict.evidence.get("cells")
    found = cells.items() if isinstance(cells, Mapping) else ()
    return {key: cell for key, cell in found if isinstance(cell, Mapping) and key.count("/") + 1 >= _LEAST_PARTS}


def _is_number(value: Json) -> TypeGuard[float]:
    """Not a truth value, not infinite, and no integer that is too large for a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _number(value: Json) -> float | None:
    return value if _is_number(value) else None


def _count(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _run_of(report: ReportData) -> dict[str, str]:
    return {"run": report.run, "profile": report.profile, "device": report.device, "build": report.build.label}
