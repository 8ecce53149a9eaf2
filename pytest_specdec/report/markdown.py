"""A run as Markdown: a step summary, a pull-request comment, a file. Everything in it is taken for hostile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_specdec.records import BuildIdentity, Reason, Status, Verdict
from pytest_specdec.report.data import ReportData
from pytest_specdec.report.escape import code, cut, preformatted
from pytest_specdec.report.text import how_it_ended, nothing_judged, summary_lines, word_of
from pytest_specdec.wording import counted

__all__ = ["COMMENT_LIMIT", "STEP_SUMMARY_LIMIT", "markdown"]

STEP_SUMMARY_LIMIT = 900_000  # GitHub takes 1 MiB for a step
COMMENT_LIMIT = 60_000  # GitHub takes 65,536 characters

_SIGNS = {
    "PASS": "✅",
    "KNOWN": "☑️",
    "FAIL": "❌",
    "VOID": "⚠️",
    "INCONCLUSIVE": "❔",
    "NOT JUDGED": "➖",
}
_CELL = 240
_DETAIL = 6_000
_ENDED_EARLY = "\n\n_The rest did not fit; the results file has all of it._\n"


def markdown(report: ReportData, *, link: str = "", limit: int = STEP_SUMMARY_LIMIT) -> str:
    """The verdicts of a run: what did not pass first and with its cause, the rest folded.

    ``link`` leads to the evidence. At most ``limit`` characters, cut between two parts and never inside one.
    """
    text = ""
    for part in _parts(report, link):
        if len(text) + len(part) > limit - len(_ENDED_EARLY):
            return text.rstrip("\n") + _ENDED_EARLY
        text += part
    return text


def _parts(report: ReportData, link: str) -> Iterator[str]:
    yield f"## {_title(report)}\n\n"
    yield "\n".join(_facts(report, link)) + "\n\n"
    loud = [verdict for verdict in report.verdicts if _is_loud(verdict)]
    quiet = [verdict for verdict in report.verdicts if not _is_loud(verdict)]
    if loud:
        yield from _table(loud)
        yield "\n"
        yield from map(_cause, loud)
    if quiet:
        yield f"<details><summary>{counted(len(quiet), 'claim')} that held or were not judged</summary>\n\n"
        yield from _table(quiet)
        yield "\n</details>\n"


def _title(report: ReportData) -> str:
    words = summary_lines(report.verdicts)
    failed = any(verdict.status is Status.FAIL for verdict in report.verdicts)
    ended = how_it_ended(report.exit_status, len(report.unfinished))
    red = report.exit_status != 0 or failed or ended or nothing_judged(report.verdicts)
    told = words[0] if words else "nothing was judged"
    return f"{'❌' if red else '✅'} Speculative decoding: {told}{', ' + ended if ended else ''}"


def _facts(report: ReportData, link: str) -> Iterator[str]:
    yield f"- build: {_build(report.build)}"
    if report.base is not None:
        yield f"- compared with: {_build(report.base)}"
    yield f"- profile {code(report.profile)} on {code(report.device)}, {code(report.machine)}"
    yield f"- run {code(report.run)}, {code(report.started)}"
    if how_it_ended(report.exit_status, len(report.unfinished)):
        yield "- go on with it: the same command and `--specdec-resume=DIR`, its run directory"
    if report.unfinished:
        yield f"- not reached or not finished: {code(cut(', '.join(report.unfinished), _DETAIL))}"
    if link.startswith("https://"):
        yield f"- [evidence](<{link.replace('<', '').replace('>', '').split()[0]}>)"


def _build(build: BuildIdentity) -> str:
    commit = f", commit {code(build.commit)}" if build.commit else ""
    return f"{code(build.label)} ({code(cut(build.version, _CELL))}{commit})"


def _is_loud(verdict: Verdict) -> bool:
    return verdict.status not in (Status.PASS, Status.NOT_JUDGED) or verdict.reason is Reason.DEVIATION_GONE


def _table(verdicts: Iterable[Verdict]) -> Iterator[str]:
    yield "| | claim | measured | expected | source |\n|---|---|---|---|---|\n"
    for verdict in verdicts:
        word = word_of(verdict)
        cells = (verdict.claim, verdict.measured, verdict.expected, verdict.source)
        shown = " | ".join(code(cut(text, _CELL)) for text in cells)
        yield f"| {_SIGNS[word]} {word.lower()} | {shown} |\n"


def _cause(verdict: Verdict) -> str:
    lines = [f"measured: {verdict.measured}", f"expected: {verdict.expected}", *verdict.detail.splitlines()]
    if verdict.remedy:
        lines.append(f"remedy:   {verdict.remedy}")
    summary = f"{_SIGNS[word_of(verdict)]} {code(cut(verdict.claim, _CELL))}: {code(verdict.reason.value)}"
    detail = preformatted(cut("\n".join(lines), _DETAIL))
    return f"<details><summary>{summary}</summary>\n\n{detail}\n\n</details>\n\n"
