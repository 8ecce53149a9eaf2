"""What ``git bisect run`` is told of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_specdec.cli.bisect import BAD, GOOD, SKIP, STOP, USAGE, selects, status_of
from pytest_specdec.records import BuildIdentity, ClaimKind, Reason, Status, Verdict
from pytest_specdec.report.data import ReportData
from tests.support import clean_environment

PASS = (Status.PASS, Reason.HELD)
FAIL = (Status.FAIL, Reason.TOKENS_DIFFER)
ARM_LOST = (Status.FAIL, Reason.ARM_LOST)
VOID = (Status.VOID, Reason.THROTTLED)
INCONCLUSIVE = (Status.INCONCLUSIVE, Reason.NOT_ENOUGH_EVIDENCE)
NO_ARM = (Status.NOT_JUDGED, Reason.ARM_UNAVAILABLE)
NO_RECORD = (Status.NOT_JUDGED, Reason.NO_RECORD)


def _report(verdicts: list[tuple[Status, Reason]], exit_status: int) -> ReportData:
    build = BuildIdentity("path", "/x", 1, None, "v", "w")
    tests = tuple(
        (f"t{number}", Verdict(f"c{number}", status, ClaimKind.EXACT, reason, "m", "e", "s"))
        for number, (status, reason) in enumerate(verdicts)
    )
    return ReportData("r", "", "", build, None, "tiny", "cpu", "", exit_status, tests)


@pytest.mark.parametrize(
    ("verdicts", "exit_status", "expected"),
    [
        ([PASS, NO_RECORD], 0, GOOD),
        ([PASS, FAIL], 1, BAD),
        ([FAIL, VOID, INCONCLUSIVE, ARM_LOST, NO_ARM], 1, BAD),
        ([FAIL], 3, BAD),
        ([PASS, INCONCLUSIVE], 1, SKIP),
        ([PASS, INCONCLUSIVE], 0, SKIP),
        ([PASS, VOID], 1, SKIP),
        ([PASS, ARM_LOST], 1, SKIP),
        ([PASS, NO_ARM], 0, SKIP),
        ([NO_ARM], 1, SKIP),
        ([NO_RECORD], 1, STOP + 1),
        ([PASS], 1, STOP + 1),
        ([PASS], 2, STOP + 2),
        ([FAIL], 2, STOP + 2),
        ([PASS], 3, STOP + 3),
        ([PASS, VOID], 4, STOP + 4),
    ],
)
def test_any_fail_wins_and_nothing_unclear_is_a_judgement(
    verdicts: list[tuple[Status, Reason]], exit_status: int, expected: int
) -> None:
    assert status_of(_report(verdicts, exit_status))[0] == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", False),
        ("--llama-server=new -q", False),
        ("--llama-server new", False),
        ("--pyargs pytest_specdec.suites", False),
        ("-p no:cacheprovider -x", False),
        ("--pyargs pytest_specdec.suites -m dflash2", True),
        ("-mdflash2", True),
        ("-k width.clamp", True),
        ("suites/test_width.py -q", True),
        ("-q suites/test_width.py::test_clamp", True),
    ],
)
def test_a_selection_is_known_from_the_values_of_options(line: str, expected: bool) -> None:
    assert selects(line.split()) == expected


@pytest.mark.parametrize("arguments", [[], ["--"], ["--", "--llama-server=embedded"]])
def test_a_bisection_without_a_selection_is_refused_at_once(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest_specdec", "bisect", *arguments]
    environment = clean_environment(PYTEST_ADDOPTS="-p no:cacheprovider")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == USAGE
    assert "no claims are selected" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--", "-m", "dflash2", "--no-such-option"],
        ["--", "-m", "dflash2", "--specdec-profile=nosuch", "--collect-only"],
        ["--", "no/such/file.py"],
        ["--nonsense"],
    ],
)
def test_a_wrong_command_line_stops_the_bisection(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest_specdec", "bisect", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode > STOP, done.stderr
    assert "Traceback" not in done.stderr
