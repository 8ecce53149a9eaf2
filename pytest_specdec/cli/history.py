"""``history``: one claim over many runs and builds, queried with DuckDB from the results that runs left behind.

A run's own directory says it where that is still there, else the line that the run appended to the history file.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_specdec.cli.shared import Commands, add_setting
from pytest_specdec.cli.sound import sound
from pytest_specdec.errors import LedgerError
from pytest_specdec.places import HISTORY, RUNS
from pytest_specdec.profile import load as load_profile
from pytest_specdec.report.data import RESULTS
from pytest_specdec.report.table import table

__all__ = ["Point", "add", "change_points", "points"]

# Each verdict of each run is a row; `value` is what the claim measured, where it is one figure, such as a ratio.
_QUERY = """
SELECT run, coalesce(started, '') AS started, build.number, coalesce('b' || build.number, build.version) AS label,
       device, v.claim, v.status,
       TRY_CAST(coalesce(json_extract_string(v.evidence, '$.value'),
                         json_extract_string(v.evidence, '$.ratio')) AS DOUBLE) AS value
FROM (
    SELECT run, started, build, profile, device, unnest(verdicts) AS v
    FROM (
        SELECT * FROM read_json($files, format = 'unstructured', filename = true, columns = {
            run: 'VARCHAR', started: 'VARCHAR', profile: 'VARCHAR', device: 'VARCHAR',
            build: 'STRUCT(number BIGINT, version VARCHAR)',
            verdicts: 'STRUCT(claim VARCHAR, status VARCHAR, evidence JSON)[]'
        }, maximum_object_size = 33554432)
        QUALIFY dense_rank() OVER (PARTITION BY run ORDER BY filename = $history) = 1
    )
)
WHERE profile = $profile AND ($device IS NULL OR device = $device) AND v.claim GLOB $claim
ORDER BY v.claim, device, build.number NULLS LAST, started, run
"""


@dataclass(frozen=True, slots=True)
class Point:
    """One verdict of one run; ``value`` is None for a claim that has no single figure."""

    run: str
    started: str
    build: str
    device: str
    claim: str
    status: str
    value: float | None


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("history", help="a claim over many runs and builds (needs the extra `history`)")
    parser.add_argument("claim", nargs="?", default="*", metavar="CLAIM", help="a claim, or a pattern with *")
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help=f"directory of runs; default: {RUNS}")
    add_setting(
        parser, "--specdec-history", dest="history", type=Path, default=HISTORY, metavar="FILE",
        help=f"what runs appended; default: {HISTORY}",
    )  # fmt: skip
    add_setting(parser, "--specdec-profile", dest="profile", default="tiny", metavar="NAME|PATH")
    parser.add_argument("--device", metavar="NAME", help="only runs on this device, by the name that results have")
    parser.add_argument("--plot", type=Path, metavar="FILE.html", help="draw the values over the builds with plotly")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a table: builds from old to new, with what changed between them."""
    profile = _profile_name(arguments.profile)
    found = points(arguments.runs, arguments.history, arguments.claim, profile, arguments.device)
    if not found:
        raise LedgerError(
            f"looking for {arguments.claim} in {arguments.runs} and {arguments.history}",
            f"no run of the profile {profile} judged it",
            "see `python -m pytest_specdec claims` for the names; quote a pattern with *",
        )
    changes = {key: change_points([p.value for p in line]) for key, line in _lines(found).items()}
    print(table(("claim", "device", "build", "started", "verdict", "value", "change"), _rows(found, changes)))
    if importlib.util.find_spec("otava") is None:
        print("\nno change points: pip install apache-otava")
    if arguments.plot:
        _plot(_lines(found), arguments.plot)
        print(f"\nplot: {arguments.plot}")
    return 0


def _profile_name(name_or_path: str) -> str:
    """A run's results name its profile; a setting may name the file. Raises ProfileError."""
    return load_profile(name_or_path).name if Path(name_or_path).is_file() else name_or_path


def points(directory: Path, history: Path, claim: str, profile: str, device: str | None) -> list[Point]:
    """Every verdict on claims that match, by claim, device and build. Raises LedgerError."""
    results = sorted(directory.glob(f"*/{RESULTS}"))
    if not results and not history.exists():
        raise LedgerError(
            f"reading the runs in {directory} and {history}", "none has left results",
            "run pytest, or name --runs or --specdec-history",
        )  # fmt: skip
    duckdb = _required("duckdb")
    pattern = claim.replace("[", "[[]")
    with tempfile.TemporaryDirectory(prefix="specdec-history-") as folder:
        files, history = sound(results, history, Path(folder))
        values = {"files": files, "history": str(history), "profile": profile, "device": device, "claim": pattern}
        try:
            rows = duckdb.connect(":memory:").execute(_QUERY, values).fetchall() if files else []
        except duckdb.Error as error:
            raise LedgerError(f"reading {', '.join(files)}", str(error), "move the broken one away") from None
    return [
        Point(run, started, label, where, name, status, value)
        for run, started, _number, label, where, name, status, value in rows
    ]


def change_points(values: Sequence[float | None]) -> dict[int, str]:
    """Where the series changes for good, as index → the relative change in words; empty without apache-otava."""
    if importlib.util.find_spec("otava") is None:
        return {}
    from otava.analysis import compute_change_points

    known = [(index, value) for index, value in enumerate(values) if value is not None]
    found, _weak = compute_change_points([value for _, value in known], window_len=30, max_pvalue=0.001)
    changes = {}
    for point in found:
        before, after = point.stats.mean_1, point.stats.mean_2
        change = f" ({after / before - 1:+.1%})" if before else ""
        changes[known[point.index][0]] = f"{before:.4g} → {after:.4g}{change}"
    return changes


def _lines(found: Sequence[Point]) -> dict[tuple[str, str], list[Point]]:
    lines: dict[tuple[str, str], list[Point]] = {}
    for point in found:
        lines.setdefault((point.claim, point.device), []).append(point)
    return lines


def _rows(found: Sequence[Point], changes: dict[tuple[str, str], dict[int, str]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for key, line in _lines(found).items():
        for index, p in enumerate(line):
            value = "-" if p.value is None else f"{p.value:.4g}"
            rows.append((p.claim, p.device, p.build, p.started, p.status, value, changes[key].get(index, "")))
    return rows


def _plot(lines: dict[tuple[str, str], list[Point]], path: Path) -> None:
    graph = _required("plotly.graph_objects")
    figure = graph.Figure()
    for (claim, device), line in lines.items():
        drawn = [point for point in line if point.value is not None]
        if drawn:
            texts = [f"{point.build}, {point.started}: {point.status}" for point in drawn]
            figure.add_scatter(
                x=[point.build for point in drawn], y=[point.value for point in drawn], text=texts,
                name=f"{claim} on {device}", mode="lines+markers",
            )  # fmt: skip
    figure.update_layout(xaxis_title="build", yaxis_title="measured", xaxis_type="category")
    try:
        figure.write_html(str(path), include_plotlyjs=True)
    except OSError as error:
        raise LedgerError(f"writing {path}", str(error), "name a file that can be written with --plot") from None


def _required(name: str) -> Any:
    package = name.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        raise LedgerError("reading the history", f"{package} is not installed", "pip install 'pytest-specdec[history]'")
    return importlib.import_module(name)
