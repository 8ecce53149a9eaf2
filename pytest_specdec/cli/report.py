"""``report``: a finished run again, as text, as Markdown, or as annotations for GitHub Actions."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pytest_specdec.cli.shared import Commands, latest_run
from pytest_specdec.report.data import ReportData, read_report
from pytest_specdec.report.github import annotation_lines, link_of, write_step_summary
from pytest_specdec.report.markdown import COMMENT_LIMIT, STEP_SUMMARY_LIMIT, markdown
from pytest_specdec.report.text import whole_report

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("report", help="show a finished run again, as text or Markdown")
    parser.add_argument(
        "run_path", nargs="?", type=Path, metavar="RUN", help="run directory or results file; default: the latest run"
    )
    parser.add_argument("--markdown", action="store_true", help="as Markdown, safe to publish")
    parser.add_argument("--comment", action="store_true", help="as Markdown short enough for a comment on GitHub")
    parser.add_argument("--link", default="", metavar="URL", help="where the evidence is; default: this workflow's run")
    parser.add_argument("--github", action="store_true", help="print annotations and append to $GITHUB_STEP_SUMMARY")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it. The status says nothing of the verdicts: that was the run's."""
    report = read_report(arguments.run_path or latest_run(Path.cwd()))
    if arguments.github:
        _to_github(report)
    elif arguments.markdown or arguments.comment:
        limit = COMMENT_LIMIT if arguments.comment else STEP_SUMMARY_LIMIT
        print(markdown(report, link=arguments.link or link_of(os.environ), limit=limit), end="")
    else:
        print(whole_report(report))
    return 0


def _to_github(report: ReportData) -> None:
    for line in annotation_lines(report):
        print(line)
    write_step_summary(report, os.environ)
