"""Verdicts in words."""

from __future__ import annotations

from pytest_specdec.records import ClaimKind, Reason, Status, Verdict
from pytest_specdec.report.text import nothing_judged, table_lines


def verdict(claim: str, reason: Reason, measured: str, detail: str = "why") -> Verdict:
    return Verdict(claim, Status.NOT_JUDGED, ClaimKind.SPEED, reason, measured, "a record", "study 4", detail)


def lines(*verdicts: Verdict) -> list[str]:
    return [line for _, line in table_lines(verdicts)]


def test_what_is_not_judged_for_one_cause_is_told_once() -> None:
    assert lines(verdict("a", Reason.NO_RECORD, "×1.1"), verdict("b", Reason.NO_RECORD, "×1.2")) == [
        "NOT JUDGED   (no_record) a, b",
        "               wanted a record: why",
    ]


def test_what_is_reported_is_told_each_with_its_figure() -> None:
    assert lines(verdict("a", Reason.REPORTED, "×1.1"), verdict("b", Reason.REPORTED, "×1.2", "")) == [
        "NOT JUDGED   (reported) a",
        "               ×1.1: why",
        "NOT JUDGED   (reported) b",
        "               ×1.2",
    ]


def test_a_report_judges_nothing() -> None:
    assert nothing_judged([verdict("a", Reason.REPORTED, "×1.1")])
