"""Results are read like any input that a stranger may have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.errors import LedgerError
from pytest_specdec.report.data import read_report


def document() -> dict[str, Any]:
    """The results of a run with one claim."""
    return {
        "schema": 1,
        "run": "r",
        "build": {"source": "path", "location": "/x", "number": 1, "commit": None, "version": "v", "why": "w"},
        "profile": "tiny",
        "device": "cpu",
        "exit_status": 0,
        "summary": {"pass": 1},
        "verdicts": [
            {
                "test": "t", "claim": "c", "status": "pass", "kind": "exact", "reason": "held", "measured": "m",
                "expected": "e", "source": "s", "detail": "", "remedy": "", "evidence": {},
            }
        ],
    }  # fmt: skip


def test_a_run_directory_and_a_file_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(document()), "utf-8")
    assert read_report(tmp_path) == read_report(tmp_path / "results.json")
    assert read_report(tmp_path).verdicts[0].claim == "c"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("[]", "not of type 'object'"),
        (json.dumps(document() | {"schema": 2}), "schema: 1 was expected"),
        (json.dumps(document() | {"extra": 1}), "extra: unknown key"),
        (json.dumps(document() | {"verdicts": [document()["verdicts"][0] | {"reason": "<b>"}]}), "no such reason"),
        (json.dumps(document() | {"verdicts": [document()["verdicts"][0] | {"status": "green"}]}), "is not one of"),
        (json.dumps(document() | {"build": {"number": "1"}}), "build"),
    ],
)
def test_anything_else_is_refused_with_its_reason(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(text, "utf-8")
    with pytest.raises(LedgerError, match=why):
        read_report(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with path.open("wb") as handle:
        handle.truncate(64 * 1024 * 1024)
    with pytest.raises(LedgerError, match="more than"):
        read_report(path)


def test_a_run_without_an_end_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no such file"):
        read_report(tmp_path)
