"""Where a run may record, and what its end says of the baselines; nothing is measured."""

from __future__ import annotations

import pytest

SUITE = """
import pytest
from pytest_specdec.records import Finding, Reason, Status

@pytest.mark.claim("mine", source="test", arm="base", on="mixed")
def test_mine(claim):
    claim.judge(Finding(Status.FAIL, Reason.ASSERTION, "this", "that"))
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """One that has a suite and no baselines of its own."""
    pytester.makefile(".ini", pytest="[pytest]\ntestpaths = claims\n")
    pytester.mkdir("claims").joinpath("test_mine.py").write_text(SUITE, "utf-8")
    return pytester


@pytest.mark.parametrize(
    "option", ["--specdec-update-baseline", "--specdec-update-baseline=new", "--specdec-calibrate"]
)
def test_nothing_is_written_into_the_baselines_of_the_package(project: pytest.Pytester, option: str) -> None:
    result = project.runpytest_inprocess(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*writing into the baselines *", "*remedy: make a folder baselines/ in *"])
    assert not (project.path / ".specdec").exists()


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--specdec-update-baseline", "nothing was recorded: *"),
        ("--specdec-calibrate", "nothing was calibrated: no speed claim was judged; *"),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_a_run_that_had_nothing_to_write_says_so(project: pytest.Pytester, option: str, told: str, own: bool) -> None:
    where = "baselines" if own else "elsewhere"
    project.mkdir(where)
    result = project.runpytest_inprocess(option, *([] if own else [f"--specdec-baselines={where}"]))
    result.stdout.fnmatch_lines([told])
    assert not list((project.path / where).iterdir())


def test_suites_of_a_project_are_not_asked_for_the_entries_of_the_package(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess()
    result.stdout.fnmatch_lines(["FAIL *mine*"])
    result.stdout.no_fnmatch_line("*no claim uses*")
