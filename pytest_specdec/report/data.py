"""What every renderer of a run works from, read back from ``results.json``, which may come from anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_specdec.errors import LedgerError
from pytest_specdec.records import BuildIdentity, ClaimKind, Json, Reason, Status, Verdict
from pytest_specdec.schema import problems

__all__ = ["RESULTS", "ReportData", "read_report", "report_of"]

RESULTS = "results.json"
_MOST_BYTES = 32 * 1024 * 1024
_MOST_VERDICTS = 10_000
_MOST_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class ReportData:
    """One run's outcome. ``base`` is the build that it was compared with; times are ISO 8601 in UTC."""

    run: str
    started: str
    ended: str
    build: BuildIdentity
    base: BuildIdentity | None
    profile: str
    device: str
    machine: str
    exit_status: int
    tests: tuple[tuple[str, Verdict], ...]
    unfinished: tuple[str, ...] = ()  # the selected claims that the run did not reach or did not finish

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts without the ids of their tests."""
        return tuple(verdict for _, verdict in self.tests)


def read_report(path: Path) -> ReportData:
    """The run whose directory or ``results.json`` this is.

    Raises LedgerError when it is missing, too large, not JSON, or breaks the published schema: the file is input like
    any other, and whoever wrote it may have wanted something.
    """
    file = path / RESULTS if path.is_dir() else path
    tried = f"reading the results {file}"
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise LedgerError(tried, f"it has more than {_MOST_BYTES} bytes", "give the results of one run")
        document = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise LedgerError(
            tried,
            "there is no such file",
            "give a run directory of .specdec/runs; a run that was killed has none",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise LedgerError(tried, f"it cannot be read as JSON: {error}", "give an unchanged results file") from None
    return report_of(document, tried)


def report_of(document: Json, tried: str) -> ReportData:
    """The same from the parsed document. Raises LedgerError as ``tried`` failed."""
    wrong = problems(document, "pytest_specdec.report", "results.schema.json")
    if not wrong and len(document["verdicts"]) > _MOST_VERDICTS:
        wrong = [f"verdicts: more than {_MOST_VERDICTS}"]
    if not wrong:
        wrong = [f"verdicts: no such reason {row['reason']!r}" for row in document["verdicts"] if _unknown(row)]
    if wrong:
        raise LedgerError(
            tried, "\n".join(line[:300] for line in wrong[:_MOST_PROBLEMS]), "give a results file of this version"
        )
    return ReportData(
        run=document["run"],
        started=document.get("started", ""),
        ended=document.get("ended", ""),
        build=BuildIdentity(**document["build"]),
        base=BuildIdentity(**document["base"]) if document.get("base") else None,
        profile=document["profile"],
        device=document["device"],
        machine=document.get("machine", ""),
        exit_status=document["exit_status"],
        tests=tuple((row["test"], _verdict(row)) for row in document["verdicts"]),
        unfinished=tuple(document.get("unfinished", ())),
    )


def _unknown(row: Mapping[str, Any]) -> bool:
    return row["reason"] not in set(Reason)


def _verdict(row: Mapping[str, Any]) -> Verdict:
    fields = {name: value for name, value in row.items() if name != "test"}
    return Verdict(
        **{
            **fields,
            "status": Status(row["status"]),
            "kind": ClaimKind(row["kind"]),
            "reason": Reason(row["reason"]),
        }
    )
