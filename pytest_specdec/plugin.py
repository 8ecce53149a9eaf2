"""The pytest hooks, and nothing else. Imports little: every pytest run on a machine with the plugin loads this file."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import pytest

from pytest_specdec import options
from pytest_specdec.fixtures import arm, baseline, cells, claim, contrast, lossless, memory, prefixes, server
from pytest_specdec.integrations import benchmark
from pytest_specdec.keys import (
    CLAIM,
    DECLARED,
    JUDGE,
    NOTES,
    PROFILE,
    REACHED,
    RECORDS,
    RED,
    RUN,
    RUN_DIR,
    SESSION,
    SETTINGS,
    TOLD,
    VERDICTS,
)

if TYPE_CHECKING:
    from pytest_specdec.records import Claim, Profile, Settings

__all__ = ["arm", "baseline", "cells", "claim", "contrast", "lossless", "memory", "prefixes", "server"]

_CLAIM_MARKER = (
    "claim(id, *, source, arm=, arms=, each=, over=, on=, kind=, study=, server_flags=, figure=, group=, against=, "
    "against_over=, across_builds=): this test judges a claim about speculative decoding. `arm`/`over` compare two "
    "arms, `arms` names several, `each` repeats the test per arm; `on` is the workload, `group` a part of it; `kind` "
    "is exact, lossless, speed or memory; `figure` is what a contrast compares (throughput, cycles_per_s, token_gap, "
    "first_token, prefill); with `against` it is a ratio of two contrasts, the second over `against_over`; "
    "`across_builds` needs the cells of --llama-server-base too."
)


_CLAIM_ID = "specdec_claim"  # of a report: its attributes travel from xdist's workers, and into no JUnit XML


class VerdictCollector:
    """Keeps the verdicts in the order in which their reports arrive, from this process or from xdist's workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._verdicts, self._reached = config.stash[VERDICTS], config.stash[REACHED]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Verdicts travel in the user properties of the call phase; a test that is skipped or fails has none."""
        claim = getattr(report, _CLAIM_ID, None)
        if claim is not None and (report.when == "call" or not report.passed):
            self._reached.add(claim)
        if _has_verdict(report):
            from pytest_specdec.markers import without_group
            from pytest_specdec.report.properties import from_properties

            verdict = from_properties(report.user_properties)
            if verdict is not None:
                self._verdicts.append((without_group(report.nodeid), verdict))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Every option, from one table."""
    options.add_to_parser(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and check the values that were given."""
    from pytest_specdec.markers import FAMILIES, KINDS, STUDY

    config.addinivalue_line("markers", _CLAIM_MARKER)
    for name, meaning in {**FAMILIES, **KINDS, "study": STUDY}.items():
        config.addinivalue_line("markers", f"{name}: {meaning} (added by the declaration of a claim)")
    config.stash[VERDICTS] = []
    config.stash[REACHED] = set()
    config.stash[RECORDS] = []
    config.stash[DECLARED] = set()
    config.stash[NOTES] = []
    config.stash[TOLD] = {}
    if options.any_given(config):
        options.refuse_lost_configuration(config)
        config.stash[SETTINGS] = options.settings_of(config)
    config.pluginmanager.register(VerdictCollector(config), "specdec-verdicts")
    config.pluginmanager.register(benchmark, "specdec-benchmark")
    if not config.pluginmanager.hasplugin("benchmark"):
        config.addinivalue_line("markers", "benchmark: settings for pytest-benchmark, which is not active here")
    if config.pluginmanager.hasplugin("xdist"):
        from pytest_specdec.integrations import xdist

        config.pluginmanager.register(xdist, "specdec-xdist")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What was meant for us and says nothing."""
    return options.misspelled_lines(os.environ) if options.any_given(config) else []


def pytest_collection(session: pytest.Session) -> None:
    """A profile that was asked for and cannot be read ends the run before anything is collected."""
    if SETTINGS in session.config.stash:
        _profile(session.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a claim with ``each=`` over its arms."""
    marker = metafunc.definition.get_closest_marker("claim")
    if marker is None or "each" not in marker.kwargs:
        return
    from pytest_specdec.declaration import repeated_over

    if "arm" not in metafunc.fixturenames:
        metafunc.fixturenames.append("arm")
    metafunc.parametrize("arm", repeated_over(marker.kwargs, _profile(metafunc.config)), indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Freeze the declaration and add the selection markers, before ``-m`` looks at them."""
    marker = item.get_closest_marker("claim")
    if marker is None:
        return
    from pytest_specdec.declaration import claim_of, selection_markers, with_own_base
    from pytest_specdec.errors import SuiteError

    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    repeated = str(parameters["arm"]) if "arm" in parameters else None
    try:
        declared = with_own_base(claim_of(marker.args, marker.kwargs, repeated), _profile(item.config))
    except SuiteError as error:
        raise _usage_error(item.config, f"{item.nodeid}: {error}") from None
    item.stash[CLAIM] = declared
    item.config.stash[DECLARED].add(declared.id)
    item.extra_keyword_matches.add(declared.id)  # -k takes the name that is printed, or a part of it
    for name in selection_markers(declared, _profile(item.config)):
        item.add_marker(name)


@pytest.hookimpl(tryfirst=True)  # before the terminal reporter asks for our lines
def pytest_collection_finish(session: pytest.Session) -> None:
    """Plan: find the build, check models and baselines, open the run directory. Only where claims are selected."""
    claims = _claims(session.items)
    if not claims or session.config.option.collectonly or _settings(session.config).plan:
        return
    from pytest_specdec.errors import SpecdecError
    from pytest_specdec.places import new_run_dir
    from pytest_specdec.progress import Progress
    from pytest_specdec.session import Run

    config = session.config
    settings = _settings(config)
    run_dir = config.stash.get(RUN_DIR, None) or settings.resume or settings.run_dir or new_run_dir(config.rootpath)
    progress, session_name = Progress(config, settings.quiet), config.stash.get(SESSION, "")
    try:
        run = Run.begin(
            settings, _profile(config), config.rootpath, Path(run_dir), claims, progress, progress.waiting,
            session_name,
        )  # fmt: skip
    except SpecdecError as error:
        raise _usage_error(config, str(error)) from None
    config.stash[RUN] = run
    config.add_cleanup(run.close)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """``--specdec-plan`` says what the run would cost instead of running it."""
    claims = _claims(session.items)
    if not claims or session.config.option.collectonly or not _settings(session.config).plan:
        return None
    from pytest_specdec.reporting import show_plan

    show_plan(session.config, _settings(session.config), _profile(session.config), claims)
    return True


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Which build, and why that one; where the claims are, if options for them were given and none was found."""
    if RUN not in config.stash:
        return options.where_claims_are(config) if not config.stash[DECLARED] else []
    from pytest_specdec.header import header_lines

    told = options.any_given(config)
    misspelled = [] if told else options.misspelled_lines(os.environ)
    return [*misspelled, *header_lines(config.stash[RUN].ledger)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Every claim's test gets its own judge."""
    if CLAIM in item.stash:
        from pytest_specdec.judge import Judge

        item.stash[JUDGE] = Judge(item.stash[CLAIM])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """What cannot be judged here is said instead of measured; the first exact claim sets off those behind it."""
    if CLAIM in item.stash:
        from pytest_specdec.judge import JudgedError
        from pytest_specdec.records import Mode

        run, declared = item.config.stash[RUN], item.stash[CLAIM]
        finding = run.unavailable(declared)
        if finding is not None:
            raise JudgedError(finding)
        if declared.mode is Mode.EXACT:
            run.ahead.start()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the end of a claim's test into its verdict, in the call phase, without a traceback of ours."""
    report = yield
    if CLAIM in item.stash:
        from pytest_specdec.reporting import give_verdict

        report.__dict__[_CLAIM_ID] = item.stash[CLAIM].id
        give_verdict(item, call, report)
    elif call.excinfo is not None:
        from pytest_specdec.errors import SpecdecError

        if isinstance(call.excinfo.value, SpecdecError):  # such as a fixture of ours in a test without a claim
            report.longrepr = str(call.excinfo.value)
    return report


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Each verdict its own word."""
    if _has_verdict(report):
        from pytest_specdec.reporting import status_words

        return status_words(report)
    return None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Record what was asked for, write the results, and let nothing that judged nothing end green."""
    config = session.config
    if RUN in config.stash or RED in config.stash or config.stash[VERDICTS]:
        from pytest_specdec.reporting import finish

        finish(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line per claim, the reasons of all that did not pass, and the command that does it again."""
    verdicts, notes = config.stash[VERDICTS], config.stash[NOTES]
    if verdicts or notes:
        from pytest_specdec.reporting import summarise

        summarise(terminalreporter, config)


def _usage_error(config: pytest.Config, words: str) -> pytest.UsageError:
    """For ``raise``. A worker of pytest-xdist also sends the words to the controller, which else knows nothing."""
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output["specdec_error"] = words
    return pytest.UsageError(words)


def _has_verdict(report: pytest.CollectReport | pytest.TestReport) -> TypeGuard[pytest.TestReport]:
    """Asked of every report of every project, so it looks before anything is imported."""
    if not isinstance(report, pytest.TestReport) or report.when != "call":
        return False
    return any(name == "specdec.status" for name, _ in report.user_properties)


def _claims(items: list[pytest.Item]) -> list[Claim]:
    return [item.stash[CLAIM] for item in items if CLAIM in item.stash]


def _settings(config: pytest.Config) -> Settings:
    if SETTINGS not in config.stash:
        config.stash[SETTINGS] = options.settings_of(config)
    return config.stash[SETTINGS]


def _profile(config: pytest.Config) -> Profile:
    """Raises pytest.UsageError when it cannot be read."""
    if PROFILE not in config.stash:
        from pytest_specdec.errors import ProfileError
        from pytest_specdec.profile import load

        try:
            config.stash[PROFILE] = load(_settings(config).profile)
        except ProfileError as error:
            raise _usage_error(config, str(error)) from None
    return config.stash[PROFILE]
