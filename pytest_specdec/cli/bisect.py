"""``bisect``: runs pytest for ``git bisect run`` and answers with a status that it understands.

The answer is read from the results file of the very run that was started, never from the screen.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_specdec.cli.shared import Commands, pytest_command
from pytest_specdec.errors import SpecdecError
from pytest_specdec.places import new_run_dir
from pytest_specdec.records import Reason, Status, Verdict
from pytest_specdec.report.data import RESULTS, ReportData, read_report
from pytest_specdec.wording import counted

__all__ = ["BAD", "GOOD", "SKIP", "STOP", "USAGE", "add", "selects", "status_of"]

GOOD, BAD, SKIP = 0, 1, 125
STOP = 128  # git stops at this and above; the status of pytest is added to it
USAGE = 129
_INTERRUPTED = 2  # pytest's status after Ctrl-C
_TESTS_FAILED = 1
_BUILD_CANNOT = (Reason.ARM_LOST, Reason.ARM_UNAVAILABLE)


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "bisect",
        help="run pytest and answer with the exit status that `git bisect run` wants",
        description="0: every judged claim held. 1: a claim failed. 125 (skip): inconclusive, void, or the build lacks "
        "the arm. 128 and above (stop): wrong usage, an internal error, an interrupt. Any fail wins.",
    )
    parser.error_status = USAGE
    parser.add_argument("pytest_arguments", nargs=argparse.REMAINDER, metavar="-- ARGS", help="arguments of pytest")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """One step of a bisection."""
    words = arguments.pytest_arguments
    words = words[1:] if words[:1] == ["--"] else words
    if not selects([*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *words]):
        # Every commit would pay for all claims, and whichever fails first would answer for the one that is looked for.
        print("bisect: no claims are selected; say which, as with: bisect -- -m 'dflash2 and exact'", file=sys.stderr)
        return USAGE
    try:
        return _step(words)
    except KeyboardInterrupt:
        return STOP + _INTERRUPTED
    except Exception as error:  # a status below 128 would be taken for a judgement of this commit
        print(f"bisect: {error}", file=sys.stderr)
        return USAGE


def selects(words: Sequence[str]) -> bool:
    """Whether arguments of pytest choose among the claims: -m, -k, or a place that is no option's value."""
    for before, word in itertools.pairwise(["", *words]):
        if word.startswith(("-m", "-k")) or "::" in word:
            return True
        if not word.startswith("-") and not before.startswith("-"):
            return True
    return False


def status_of(report: ReportData) -> tuple[int, str]:
    """The answer for a finished run, and why in a few words."""
    if report.exit_status == _INTERRUPTED:
        return STOP + _INTERRUPTED, "the run was interrupted"
    failed = [v for v in report.verdicts if v.status is Status.FAIL and v.reason is not Reason.ARM_LOST]
    if failed:
        return BAD, f"{counted(len(failed), 'claim')} failed: {_named(failed)}"
    if report.exit_status > _TESTS_FAILED:
        return STOP + report.exit_status, f"pytest ended with status {report.exit_status}"
    undecided = [v for v in report.verdicts if _says_nothing_of_this_commit(v)]
    if undecided:
        return SKIP, f"{counted(len(undecided), 'claim')} could not be judged on this build: {_named(undecided)}"
    if report.exit_status == _TESTS_FAILED:
        return STOP + _TESTS_FAILED, "something else than a claim failed, or no selected claim can ever be judged here"
    return GOOD, "every judged claim held"


def _says_nothing_of_this_commit(verdict: Verdict) -> bool:
    return verdict.status in (Status.INCONCLUSIVE, Status.VOID) or verdict.reason in _BUILD_CANNOT


def _step(words: Sequence[str]) -> int:
    run_dir = new_run_dir(Path.cwd()).absolute()
    done = subprocess.run(pytest_command([*words, f"--specdec-run-dir={run_dir}"]), check=False, env=_environment())
    results = run_dir / RESULTS
    if not results.exists():
        # Any status of pytest without results is a usage or internal error: 0 would mean that nothing was claimed.
        status = STOP + (done.returncode if 0 < done.returncode < 127 else _TESTS_FAILED)
        print(f"bisect: {status}: pytest ended with status {done.returncode} and judged nothing", file=sys.stderr)
        return status
    try:
        status, why = status_of(read_report(results))
    except SpecdecError as error:
        print(error, file=sys.stderr)
        return USAGE
    print(f"bisect: {status}: {why}", file=sys.stderr)
    return status


def _environment() -> dict[str, str]:
    """Without what the user set for single runs: a report file or a baseline must not change on the way."""
    return {name: value for name, value in os.environ.items() if name != "SPECDEC_RUN_DIR"}


def _named(verdicts: Sequence[Verdict]) -> str:
    told = ", ".join(f"{verdict.claim} ({verdict.reason})" for verdict in verdicts[:3])
    return told + (", …" if len(verdicts) > 3 else "")
