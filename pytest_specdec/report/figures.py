"""All figures of a run as one flat table, a row for each, for spreadsheets and dashboards."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields

from pytest_specdec.records import Json

__all__ = ["FigureRow", "figure_rows", "figures_csv"]

_OF_A_CELL = ("tokens_per_s", "cycles_per_s", "tokens_per_cycle", "acceptance")


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


def figure_rows(results: Mapping[str, Json]) -> Iterator[FigureRow]:
    """The rows of one results document: what each verdict measured, then each cell once."""
    cells: dict[str, Mapping[str, Json]] = {}
    for verdict in results["verdicts"]:
        evidence = verdict["evidence"]
        cells |= evidence.get("cells", {})
        yield from _of_verdict(results, verdict, evidence)
    for key, figures in sorted(cells.items()):
        _, workload, arm, *role = key.split("/")
        for name in _OF_A_CELL:
            if figures.get(name) is not None:
                yield FigureRow(
                    **_run_of(results), workload=workload, arm=arm, role=role[0] if role else "new", claim="",
                    figure=name, value=figures[name], low=None, high=None, n=figures.get("valid"), unit="", status="",
                )  # fmt: skip


def figures_csv(rows: Iterable[FigureRow]) -> str:
    """The rows as CSV with a header; what a figure does not have is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(FigureRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def _of_verdict(
    results: Mapping[str, Json], verdict: Mapping[str, Json], evidence: Mapping[str, Json]
) -> Iterator[FigureRow]:
    if evidence.get("ratio") is not None:
        figure, value, unit = str(evidence["figure"]), evidence["ratio"], "×"
    elif evidence.get("value") is not None:
        figure, value, unit = "value", evidence["value"], str(evidence.get("unit", ""))
    else:
        return
    yield FigureRow(
        **_run_of(results), workload=evidence.get("workload", ""), arm=evidence.get("arm", ""), role="new",
        claim=verdict["claim"], figure=figure, value=value, low=evidence.get("low"), high=evidence.get("high"),
        n=evidence.get("pairs"), unit=unit, status=verdict["status"],
    )  # fmt: skip


def _run_of(results: Mapping[str, Json]) -> dict[str, str]:
    build = results["build"]
    number = build.get("number")
    return {
        "run": results["run"],
        "profile": results["profile"],
        "device": results["device"],
        "build": f"b{number}" if number is not None else str(build.get("version", "")),
    }
