"""``merge``: runs of one build and one profile, a device each, side by side."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pytest_specdec.cli.shared import Commands
from pytest_specdec.errors import LedgerError
from pytest_specdec.report.data import RESULTS, ReportData, read_report
from pytest_specdec.report.table import table
from pytest_specdec.report.text import word_of

__all__ = ["add", "check_same"]


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("merge", help="join runs of the same build and profile, a device each")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directory or results file")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the joined results as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a column per device. The status is 1 when any run was red."""
    reports = [read_report(path) for path in arguments.runs]
    check_same(reports)
    first = reports[0]
    print(f"build {first.build.label} ({first.build.version}), profile {first.profile}\n")
    print(table(("claim", *(report.device for report in reports)), _rows(reports)))
    print()
    for report in reports:
        counts = Counter(word_of(verdict).lower() for verdict in report.verdicts)
        print(f"{report.device}: " + ", ".join(f"{number} {word}" for word, number in counts.items()))
    if arguments.output:
        _write(arguments.output, arguments.runs)
    return 1 if any(report.exit_status for report in reports) else 0


def check_same(reports: Sequence[ReportData]) -> None:
    """Raises LedgerError where two runs are not of one build and one profile, or are of one device."""
    first = reports[0]
    tried = "joining runs"
    for other in reports[1:]:
        for name, mine, theirs in (
            ("build", _build(first), _build(other)),
            ("profile", first.profile, other.profile),
        ):
            if mine != theirs:
                why = f"they have different {name}s: {mine} ({first.run}) and {theirs} ({other.run})"
                raise LedgerError(tried, why, "join only runs that judge the same thing")
    devices = [report.device for report in reports]
    for device in devices:
        if devices.count(device) > 1:
            raise LedgerError(tried, f"several are of the device {device}", "join one run per device")


def _build(report: ReportData) -> str:
    build = report.build
    return f"{build.number or build.version} {build.commit or 'of unknown commit'}"


def _rows(reports: Sequence[ReportData]) -> list[tuple[str, ...]]:
    by_claim = [{verdict.claim: word_of(verdict) for verdict in report.verdicts} for report in reports]
    claims = dict.fromkeys(claim for words in by_claim for claim in words)
    rows = [(claim, *(words.get(claim, "-") for words in by_claim)) for claim in claims]
    return sorted(rows, key=lambda row: set(row[1:]) <= {"PASS", "-"})


def _write(path: Path, runs: Sequence[Path]) -> None:
    """The results documents as they are, in one file."""
    files = [run / RESULTS if run.is_dir() else run for run in runs]
    document = {"schema": 1, "kind": "merged", "runs": [json.loads(file.read_text("utf-8")) for file in files]}
    try:
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise LedgerError(f"writing {path}", str(error), "name a file that can be written with --output") from None
