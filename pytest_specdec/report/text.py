"""Verdicts in words, for a terminal or a log."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_specdec.records import Reason, Status, Verdict
from pytest_specdec.report.data import ReportData
from pytest_specdec.report.escape import one_line, printable
from pytest_specdec.wording import counted

__all__ = [
    "ending_lines",
    "explanation",
    "how_it_ended",
    "nothing_judged",
    "summary_lines",
    "table_lines",
    "verdict_line",
    "whole_report",
    "word_of",
]

_WORDS = {
    Status.PASS: "PASS",
    Status.FAIL: "FAIL",
    Status.INCONCLUSIVE: "INCONCLUSIVE",
    Status.VOID: "VOID",
    Status.NOT_JUDGED: "NOT JUDGED",
}
_WRAP = 110
_ENDED = {2: "interrupted", 3: "ended by an internal error", 4: "ended by a usage error"}  # by pytest's exit status
_LAST_COMPLETE = 1  # the highest exit status of a run that came to its end
_ORDER = (Status.FAIL, Status.VOID, Status.INCONCLUSIVE, Status.NOT_JUDGED, Status.PASS)


def word_of(verdict: Verdict) -> str:
    """The word on the screen; a pass that rests on a known deviation has its own."""
    return "KNOWN" if verdict.reason is Reason.KNOWN_DEVIATION else _WORDS[verdict.status]


def verdict_line(verdict: Verdict, width: int) -> str:
    """Word, claim (padded to ``width``), measured against expected, and the source."""
    texts = (verdict.claim, verdict.measured, verdict.expected, verdict.source)
    claim, measured, expected, source = map(one_line, texts)
    return f"{word_of(verdict):<12} {claim:<{width}}  {measured}; expected {expected}  [{source}]"


def table_lines(verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    """Word and line of each verdict; those that are not judged for one and the same cause share their lines."""
    judged = [verdict for verdict in verdicts if verdict.status is not Status.NOT_JUDGED]
    width = max((len(one_line(verdict.claim)) for verdict in judged), default=0)
    lines = [(word_of(verdict), verdict_line(verdict, width)) for verdict in judged]
    unjudged = [verdict for verdict in verdicts if verdict.status is Status.NOT_JUDGED]
    for cause in dict.fromkeys(map(_cause, unjudged)):
        claims = [verdict for verdict in unjudged if _cause(verdict) == cause]
        lines += [(_WORDS[Status.NOT_JUDGED], line) for line in _not_judged(claims)]
    return lines


def _cause(verdict: Verdict) -> tuple[str, ...]:
    reported = verdict.measured if verdict.reason is Reason.REPORTED else ""
    return verdict.reason, verdict.expected, verdict.detail, verdict.remedy, reported


def _not_judged(claims: Sequence[Verdict]) -> list[str]:
    """The claims that share a cause, and the cause."""
    first = claims[0]
    named = textwrap.wrap(", ".join(one_line(verdict.claim) for verdict in claims), _WRAP, break_long_words=False)
    told = first.measured if first.reason is Reason.REPORTED else f"wanted {first.expected}"
    why = f"{one_line(told)}: {printable(first.detail)}".rstrip(": ").splitlines()
    head = f"{_WORDS[Status.NOT_JUDGED]:<12} ({first.reason}) "
    lines = [head + named[0], *(f"{'':<12} {line}" for line in named[1:]), *(f"{'':<12}   {line}" for line in why)]
    return [*lines, f"{'':<12}   remedy: {one_line(first.remedy)}"] if first.remedy else lines


def explanation(verdict: Verdict) -> str:
    """All of a verdict that is not a plain pass, over several lines."""
    lines = [
        f"{word_of(verdict)} ({verdict.reason}): {verdict.claim}  [{verdict.source}]",
        f"  measured: {verdict.measured}",
        f"  expected: {verdict.expected}",
        *(f"  {line}" for line in verdict.detail.splitlines()),
    ]
    return printable("\n".join([*lines, f"  remedy:   {verdict.remedy}"] if verdict.remedy else lines))


def whole_report(report: ReportData, directory: str = "DIR") -> str:
    """A run as it stood on the screen at its end; ``directory`` is where it can be gone on with."""
    judged = [v for v in report.verdicts if v.status is not Status.NOT_JUDGED]
    told = [v for v in judged if v.detail or v.status is not Status.PASS]
    lines = [
        f"run {one_line(report.run)}, {one_line(report.started)}",
        f"build {one_line(report.build.label)} ({one_line(report.build.location)}; {one_line(report.build.why)})",
        *([f"compared with {one_line(report.base.label)} ({one_line(report.base.location)})"] if report.base else []),
        f"profile {one_line(report.profile)} on {one_line(report.device)}, {one_line(report.machine)}",
        "",
        *(line for _, line in table_lines(report.verdicts)),
        *(line for verdict in told for line in ("", explanation(verdict))),
        "",
        *summary_lines(report.verdicts),
        *ending_lines(report.exit_status, len(report.unfinished), directory),
    ]
    return "\n".join(lines)


def summary_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """How many of each, and what the run as a whole is worth."""
    if not verdicts:
        return []
    counts = Counter(word_of(verdict) for verdict in verdicts)
    words = [*dict.fromkeys(_WORDS[status] for status in _ORDER), "KNOWN"]
    told = ", ".join(f"{counts[word]} {word.lower()}" for word in words if counts[word])
    lines = [f"{counted(len(verdicts), 'claim')}: {told}"]
    if nothing_judged(verdicts):
        lines.append("nothing was judged: this run says nothing about the build and counts as a failure")
    return lines


def how_it_ended(exit_status: int, unfinished: int) -> str:
    """Of a run that did not come to its end, in words; empty where it did."""
    if exit_status <= _LAST_COMPLETE and not unfinished:
        return ""
    how = _ENDED.get(exit_status, "stopped early")
    lack = f": {counted(unfinished, 'selected claim')} not reached or not finished" if unfinished else ""
    return f"{how} (exit status {exit_status}){lack}"


def ending_lines(exit_status: int, unfinished: int, directory: str) -> list[str]:
    """What is missing of a run that did not come to its end, and how to go on with it; nothing where it did."""
    how = how_it_ended(exit_status, unfinished)
    return [how, f"go on with it: the same command and {_resume(directory)}"] if how else []


def _resume(directory: str) -> str:
    return shlex.join([f"--specdec-resume={one_line(directory)}"])


def nothing_judged(verdicts: Iterable[Verdict]) -> bool:
    """Whether no claim came to a pass or a fail: such a run is not green."""
    return not any(verdict.status in (Status.PASS, Status.FAIL) for verdict in verdicts)
