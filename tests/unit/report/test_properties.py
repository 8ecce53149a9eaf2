"""A verdict as user properties, and back."""

from __future__ import annotations

import pytest

from pytest_specdec.records import ClaimKind, Reason, Status, Verdict
from pytest_specdec.report import from_properties, results_document, to_properties
from pytest_specdec.schema import problems

VERDICT = Verdict(
    claim="width.clamp[dflash2@15]", status=Status.FAIL, kind=ClaimKind.EXACT, reason=Reason.WIDTH_DIFFERS,
    measured="8.00", expected="7.00", source="study 8", detail="two\nlines", remedy="look",
    evidence={"widths": [8, 7], "nested": {"ü": None}},
)  # fmt: skip
HOSTILE = "\x1b[31m]]> <script>\u2028 \"quotes\" 'and' 🙃\n\t\\"
IDENTITY = {
    "run": "r1", "started": "2026-11-29T10:00:00+00:00", "profile": "tiny", "device": "cpu", "machine": "Linux",
    "build": {"source": "path", "location": "/x", "number": 1, "commit": None, "version": "v", "why": "w"},
    "settings": {"never": "shown"},
}  # fmt: skip


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("text", ["plain", "", HOSTILE])
def test_a_verdict_survives_the_way_through_properties(status: Status, text: str) -> None:
    verdict = Verdict(
        "c", status, ClaimKind.SPEED, Reason.HELD, text, text, text, text, text, {text: [text, 1.5, None]}
    )
    properties = to_properties(verdict)
    assert all(isinstance(name, str) and isinstance(value, str) for name, value in properties)
    assert from_properties([("theirs", 1), *properties, ("also theirs", "x")]) == verdict


def test_properties_of_others_are_no_verdict() -> None:
    assert from_properties([]) is None
    assert from_properties([("claim", "x"), ("status", "pass")]) is None


def test_the_results_obey_their_schema() -> None:
    document = results_document(IDENTITY, [("a.py::t", VERDICT), ("a.py::u", VERDICT)], "2026-11-29T10:01:00+00:00", 1)
    assert problems(document, "pytest_specdec.report", "results.schema.json") == []
    assert document["summary"] == {"fail": 2}
    assert "settings" not in document
    spoilt = {**document, "verdict": []}
    assert problems(spoilt, "pytest_specdec.report", "results.schema.json") == [
        "verdict: unknown key; did you mean 'verdicts'?"
    ]
