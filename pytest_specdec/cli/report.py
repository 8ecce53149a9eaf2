"""``report``: a finished run again, as text, as Markdown, as a table of figures, or for GitHub Actions."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pytest_specdec.cli.shared import Commands, runs_with_results
from pytest_specdec.cli.sound import warn
from pytest_specdec.errors import LedgerError
from pytest_specdec.report.data import RESULTS, ReportData, read_report
from pytest_specdec.report.figures import figure_rows, figures_csv
from pytest_specdec.report.github import annotation_lines, link_of, write_step_summary
from pytest_specdec.report.markdown import COMMENT_LIMIT, STEP_SUMMARY_LIMIT, markdown
from pytest_specdec.report.text import whole_report

__all__ = ["add"]

_SCREEN = "-"


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("report", help="show a finished run again, as text or Markdown")
    parser.add_argument(
        "run_path", nargs="?", type=Path, metavar="RUN", help="run directory or results file; default: the latest run"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="as Markdown, safe to publish")
    form.add_argument("--comment", action="store_true", help="as Markdown short enough for a comment on GitHub")
    form.add_argument("--github", action="store_true", help="print annotations and append to $GITHUB_STEP_SUMMARY")
    parser.add_argument("--link", default="", metavar="URL", help="where the evidence is; default: this workflow's run")
    form.add_argument(
        "--csv", nargs="?", const=_SCREEN, metavar="FILE", help="all figures as CSV, a row each; default: on the screen"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it. The status says nothing of the verdicts: that was the run's."""
    path, report = _chosen(arguments.run_path)
    if arguments.csv is not None:
        _to_csv(report, arguments.csv)
    elif arguments.github:
        _to_github(report)
    elif arguments.markdown or arguments.comment:
        limit = COMMENT_LIMIT if arguments.comment else STEP_SUMMARY_LIMIT
        print(markdown(report, link=arguments.link or link_of(os.environ), limit=limit), end="")
    else:
        print(whole_report(report, str(path if path.is_dir() else path.parent)))
    return 0


def _chosen(path: Path | None) -> tuple[Path, ReportData]:
    """The run that was named, else the latest that can be read. Raises LedgerError."""
    if path is not None:
        return path, read_report(path)
    *newer, oldest = runs_with_results(Path.cwd())
    for run_dir in newer:
        try:
            return run_dir, read_report(run_dir)
        except LedgerError as error:
            warn(f"skipped the latest run: {error}")
    return oldest, read_report(oldest)


def _to_csv(report: ReportData, destination: str) -> None:
    """Raises LedgerError where the file cannot be written, or is one that must not be lost."""
    text = figures_csv(figure_rows(report))
    if destination == _SCREEN:
        print(text, end="")
        return
    path = Path(destination)
    tried = f"writing the figures of the run {report.run} to {path}"
    if path.name == RESULTS or path.is_dir():
        why = "that is a directory" if path.is_dir() else "a run keeps its results under that name"
        raise LedgerError(tried, why, "name the run before --csv and the file to write after it")
    try:
        path.write_text(text, "utf-8", newline="")
    except OSError as error:
        raise LedgerError(tried, str(error), "name a file that can be written, or - for the screen") from None


def _to_github(report: ReportData) -> None:
    for line in annotation_lines(report):
        print(line)
    write_step_summary(report, os.environ)
