"""Verdicts in words, for a terminal or a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_specdec.records import Reason, Status, Verdict

__all__ = ["explanation", "nothing_judged", "summary_lines", "verdict_line", "word_of"]

_WORDS = {
    Status.PASS: "PASS",
    Status.FAIL: "FAIL",
    Status.INCONCLUSIVE: "INCONCLUSIVE",
    Status.VOID: "VOID",
    Status.NOT_JUDGED: "NOT JUDGED",
}
_ORDER = (Status.FAIL, Status.VOID, Status.INCONCLUSIVE, Status.NOT_JUDGED, Status.PASS)


def word_of(verdict: Verdict) -> str:
    """The word on the screen; a pass that rests on a known deviation has its own."""
    return "KNOWN" if verdict.reason is Reason.KNOWN_DEVIATION else _WORDS[verdict.status]


def verdict_line(verdict: Verdict, width: int) -> str:
    """Word, claim (padded to ``width``), measured against expected, and the source."""
    words = f"{word_of(verdict):<12} {verdict.claim:<{width}}  "
    return f"{words}{verdict.measured}; expected {verdict.expected}  [{verdict.source}]"


def explanation(verdict: Verdict) -> str:
    """All of a verdict that is not a plain pass, over several lines."""
    lines = [
        f"{word_of(verdict)} ({verdict.reason}): {verdict.claim}  [{verdict.source}]",
        f"  measured: {verdict.measured}",
        f"  expected: {verdict.expected}",
        *(f"  {line}" for line in verdict.detail.splitlines()),
    ]
    return "\n".join([*lines, f"  remedy:   {verdict.remedy}"] if verdict.remedy else lines)


def summary_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """How many of each, and what the run as a whole is worth."""
    if not verdicts:
        return []
    counts = Counter(word_of(verdict) for verdict in verdicts)
    words = [*dict.fromkeys(_WORDS[status] for status in _ORDER), "KNOWN"]
    told = ", ".join(f"{counts[word]} {word.lower()}" for word in words if counts[word])
    lines = [f"{len(verdicts)} claims: {told}"]
    if nothing_judged(verdicts):
        lines.append("nothing was judged: this run says nothing about the build and counts as a failure")
    return lines


def nothing_judged(verdicts: Iterable[Verdict]) -> bool:
    """Whether no claim came to a pass or a fail: such a run is not green."""
    return not any(verdict.status in (Status.PASS, Status.FAIL) for verdict in verdicts)
