"""From verdicts to pytest's reports, the results file, the baseline and the screen."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.errors import LedgerError, SpecdecError
from pytest_specdec.keys import (
    ANNOTATIONS,
    CLAIM,
    JUDGE,
    NOTES,
    REACHED,
    RECORDS,
    RED,
    RUN,
    RUN_DIR,
    SETTINGS,
    TOLD,
    VERDICTS,
)
from pytest_specdec.measure.ledger import Ledger, append_line
from pytest_specdec.options import OPTIONS
from pytest_specdec.places import HISTORY
from pytest_specdec.recorded import left_over, nothing_stored, record
from pytest_specdec.records import Inconclusive, Reason, Status, Verdict
from pytest_specdec.report import (
    ending_lines,
    explanation,
    from_properties,
    nothing_judged,
    results_document,
    summary_lines,
    table_lines,
    to_properties,
    word_of,
)
from pytest_specdec.report.data import RESULTS, read_report
from pytest_specdec.report.github import annotation_lines, on_actions, write_step_summary
from pytest_specdec.report.results import summary_row
from pytest_specdec.verdicts import verdict_of

if TYPE_CHECKING:
    from pytest_specdec.records import Claim, Profile, Settings
    from pytest_specdec.session import Run

__all__ = ["finish", "give_verdict", "show_plan", "status_words", "summarise"]

_COLOURS = {
    "PASS": {"green": True},
    "KNOWN": {"yellow": True},
    "FAIL": {"red": True, "bold": True},
    "VOID": {"yellow": True, "bold": True},
    "INCONCLUSIVE": {"yellow": True, "bold": True},
    "NOT JUDGED": {"cyan": True},
}


_OF_THE_SERVER = (Reason.ARM_LOST, Reason.ARM_UNAVAILABLE, Reason.SERVER_FAILED)


def give_verdict(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Put the verdict into the report; an error that is none keeps its words and loses its traceback."""
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, pytest.skip.Exception):
        return
    verdict = None
    if report.when == "call":
        verdict = verdict_of(item.config.stash[RUN], item.stash[CLAIM], item.stash.get(JUDGE, None), error)
    if verdict is None:
        if isinstance(error, SpecdecError):
            report.longrepr = str(error)
        return
    if verdict.status is Status.PASS:
        item.config.stash[RECORDS] += item.stash[JUDGE].records
    _set_outcome(report, verdict, item, error)
    properties = to_properties(verdict)
    item.user_properties += properties  # JUnit XML reads them at teardown
    report.user_properties += properties


def _set_outcome(report: pytest.TestReport, verdict: Verdict, item: pytest.Item, error: BaseException | None) -> None:
    if hasattr(report, "wasxfail"):  # expected to fail by a mark of the test: pytest has decided what that means
        return
    skips = item.config.stash[SETTINGS].inconclusive is Inconclusive.SKIP
    if verdict.status is Status.PASS:
        report.outcome, report.longrepr = "passed", None
    elif verdict.status is Status.NOT_JUDGED or (verdict.status is Status.INCONCLUSIVE and skips):
        path, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = (path, (line or 0) + 1, f"{verdict.reason}: {verdict.detail or verdict.measured}")
    else:
        report.outcome = "failed"
        # The test's own assertion keeps pytest's view of it, which shows the values.
        if not isinstance(error, AssertionError):
            report.longrepr = explanation(_told_once(verdict, item.config.stash[TOLD]))


def _told_once(verdict: Verdict, told: dict[str, str]) -> Verdict:
    """A cause that many claims share fills the screen once: the same words, or a server that does not start."""
    cause = verdict.reason.value if verdict.reason in _OF_THE_SERVER else verdict.detail
    if not verdict.detail or told.setdefault(cause, verdict.claim) == verdict.claim:
        return verdict
    return replace(verdict, detail=f"as told for {told[cause]}; the whole of it is in the results and the logs")


def status_words(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Category, letter and word, where pytest's own would hide what kind of verdict it is."""
    verdict = from_properties(report.user_properties)
    if verdict is None or verdict.status is Status.FAIL:
        return None
    if verdict.status is Status.PASS and verdict.reason is not Reason.KNOWN_DEVIATION:
        return None
    word = word_of(verdict)
    letter = {"KNOWN": "k", "VOID": "v", "INCONCLUSIVE": "i", "NOT JUDGED": "n"}[word]
    return word.lower(), letter, word


def finish(session: pytest.Session) -> None:
    """The end of a run: baseline, results, exit code. What cannot be written is told and makes the run red.

    pytest-xdist passes over the exit status of a worker: what makes a worker red it tells the controller.
    """
    config = session.config
    run = config.stash.get(RUN, None)
    if run is not None:
        _unless_told(session, lambda: record(config, run))
        _unless_told(session, run.close)  # later a worker of pytest-xdist could tell nobody
    output = getattr(config, "workeroutput", None)
    if output is not None:  # a worker of pytest-xdist
        output["specdec_notes"] = config.stash[NOTES]
        output["specdec_red"] = config.stash.get(RED, False)
        return
    if nothing_judged([verdict for _, verdict in config.stash[VERDICTS]]) or config.stash.get(RED, False):
        _redden(session)
    if SETTINGS in config.stash and config.stash[SETTINGS].quiet:
        _hush(config)
    config.stash[NOTES] += nothing_stored(config)
    if run is not None:
        config.stash[NOTES] += left_over(config, run)
    _unless_told(session, lambda: _write_results(config, run, int(session.exitstatus)))
    if on_actions(os.environ):
        _unless_told(session, lambda: _tell_github(config, run))


def _hush(config: pytest.Config) -> None:
    """No section of failures where only claims have failed: the results file and JUnit XML keep the reasons."""
    terminal: pytest.TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")
    stats = terminal.stats if terminal is not None else {}
    failed = [*stats.get("failed", ()), *stats.get("error", ())]
    if all(isinstance(r, pytest.TestReport) and from_properties(r.user_properties) is not None for r in failed):
        config.option.tbstyle = "no"


def _unless_told(session: pytest.Session, action: Callable[[], None]) -> None:
    try:
        action()
    except SpecdecError as error:
        session.config.stash[NOTES] += str(error).splitlines()
        _redden(session)


def _redden(session: pytest.Session) -> None:
    session.config.stash[RED] = True
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def show_plan(config: pytest.Config, settings: Settings, profile: Profile, claims: Sequence[Claim]) -> None:
    """What these claims would cost, on the screen. Raises pytest.UsageError when the baselines cannot be read."""
    from pytest_specdec.planning import plan_lines
    from pytest_specdec.session import planned

    try:
        lines = plan_lines(planned(settings, profile, config.rootpath, claims))
    except SpecdecError as error:
        raise pytest.UsageError(str(error)) from None
    terminal = config.get_terminal_writer()
    terminal.line()
    for line in lines:
        terminal.line(line)


def summarise(terminal: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The verdict table, the reasons, what was recorded, and how to do it again."""
    verdicts = config.stash[VERDICTS]
    terminal.section("claims about speculative decoding")
    for word, line in table_lines([verdict for _, verdict in verdicts]):
        terminal.write_line(line, **_COLOURS[word])
    settings = config.stash.get(SETTINGS, None)
    if settings is None or not settings.quiet:
        _write_reasons(terminal, config)
    terminal.write_line("")
    for line in (*summary_lines([verdict for _, verdict in verdicts]), *config.stash[NOTES]):
        terminal.write_line(line, bold=True)
    red = [test for test, verdict in verdicts if verdict.status not in (Status.PASS, Status.NOT_JUDGED)]
    if red:
        terminal.write_line(f"again: {_command(config, red)}")
    for line in config.stash.get(ANNOTATIONS, []):
        terminal.write_line(line)


def _write_reasons(terminal: pytest.TerminalReporter, config: pytest.Config) -> None:
    """FAIL is told by pytest's section of failures, NOT JUDGED by the table; the others here, each cause once."""
    told: set[str] = set()
    for _, verdict in config.stash[VERDICTS]:
        told_elsewhere = verdict.status in (Status.FAIL, Status.NOT_JUDGED)
        plain = verdict.status is Status.PASS and not verdict.detail
        if told_elsewhere or plain or verdict.detail in told:
            continue
        told.add(verdict.detail)
        terminal.write_line("")
        terminal.write_line(explanation(verdict))


def _tell_github(config: pytest.Config, run: Run | None) -> None:
    """Under pytest-xdist the controller has no run of its own, but knows where the workers' is."""
    directory = run.ledger.directory if run is not None else config.stash.get(RUN_DIR, None)
    if directory is not None and (Path(directory) / RESULTS).exists():
        report = read_report(Path(directory))
        write_step_summary(report, os.environ)
        config.stash[ANNOTATIONS] = list(annotation_lines(report))


def _write_results(config: pytest.Config, run: Run | None, exit_status: int) -> None:
    directory = run.ledger.directory if run is not None else config.stash.get(RUN_DIR, None)
    if directory is None or not (Path(directory) / "run.json").exists():
        return
    identity = json.loads((Path(directory) / "run.json").read_text("utf-8"))
    ended = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    selected = identity["claims"] if run is None else [claim.id for claim in run.claims]
    unfinished = [claim for claim in dict.fromkeys(selected) if claim not in config.stash[REACHED]]
    config.stash[NOTES] += ending_lines(exit_status, len(unfinished), os.path.relpath(directory))
    verdicts = config.stash[VERDICTS]
    document = results_document(identity, verdicts, ended, exit_status, unfinished)
    written = Ledger(Path(directory)).write_results(document)
    settings = config.stash[SETTINGS]
    append_line(settings.history or config.rootpath / HISTORY, summary_row(document))
    if settings.report is not None:  # last: a place that cannot be written costs no history
        _copy_results(written, settings.report)


def _copy_results(written: Path, report: Path) -> None:
    try:
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_bytes(written.read_bytes())
    except OSError as error:
        raise LedgerError(
            f"writing the results to {report}", str(error), f"choose another --specdec-report; they are in {written}"
        ) from None


def _command(config: pytest.Config, tests: list[str]) -> str:
    """The same settings, these tests only. Whatever was set by ini or environment is set there again."""
    words = ["pytest"]
    for option in OPTIONS:
        value = config.getoption("specdec_" + option.dest) if option.dest != "run_dir" else None  # it holds this run
        for text in [] if value is None else [value] if isinstance(value, str) else value:
            words += [option.flag] if option.metavar is None else [f"{option.flag}={text}"]
    with contextlib.suppress(ValueError):
        root = os.path.relpath(config.rootpath)
        tests = tests if root == "." else [str(Path(root) / test) for test in tests]
    return shlex.join([*words, *tests])
