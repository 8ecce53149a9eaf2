"""What GitHub Actions shows of a run: annotations on the claims that did not pass, and the step summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_specdec.errors import LedgerError
from pytest_specdec.records import Status, Verdict
from pytest_specdec.report.data import ReportData
from pytest_specdec.report.escape import annotation_data, annotation_property, cut
from pytest_specdec.report.markdown import markdown
from pytest_specdec.report.text import ending_lines, word_of

__all__ = ["STEP_SUMMARY", "annotation_lines", "link_of", "on_actions", "write_step_summary"]

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_MOST = 10  # GitHub shows ten errors and ten warnings of a step
_MESSAGE = 1_000
_LEVELS = {Status.FAIL: "error", Status.VOID: "warning", Status.INCONCLUSIVE: "warning"}


def on_actions(environment: Mapping[str, str]) -> bool:
    """Whether this process is a step of GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def link_of(environment: Mapping[str, str]) -> str:
    """Where the run of the workflow, with its artifacts, can be seen; empty elsewhere."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    values = [environment.get(name, "") for name in names]
    return "{}/{}/actions/runs/{}".format(*values) if all(values) else ""


def annotation_lines(report: ReportData) -> Iterator[str]:
    """One workflow command a line, an early end and failures first, no more of a level than GitHub shows."""
    ended = ending_lines(report.exit_status, len(report.unfinished), "DIR")
    if ended:
        yield f"::error title={annotation_property(ended[0])}::{annotation_data(ended[1])}"
    for status, level in _LEVELS.items():
        told = [(test, verdict) for test, verdict in report.tests if verdict.status is status]
        for test, verdict in told[: _MOST - (level == "error" and bool(ended))]:
            yield _command(level, test, verdict)


def write_step_summary(report: ReportData, environment: Mapping[str, str]) -> bool:
    """Append to the file that the runner named; False where it named none. Raises LedgerError when it cannot."""
    path = environment.get(STEP_SUMMARY)
    if not path:
        return False
    try:
        with Path(path).open("a", encoding="utf-8") as handle:
            handle.write(markdown(report, link=link_of(environment)))
    except OSError as error:
        raise LedgerError(f"writing the step summary {path}", str(error), f"unset {STEP_SUMMARY}") from None
    return True


def _command(level: str, test: str, verdict: Verdict) -> str:
    file = test.partition("::")[0]
    title = f"{word_of(verdict).lower()} ({verdict.reason}): {verdict.claim}"
    message = f"measured: {verdict.measured}\nexpected: {verdict.expected}\n{verdict.detail}".strip()
    properties = f"file={annotation_property(cut(file, 200))},title={annotation_property(cut(title, 200))}"
    return f"::{level} {properties}::{annotation_data(cut(message, _MESSAGE))}"
