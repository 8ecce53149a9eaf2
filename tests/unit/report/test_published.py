"""What GitHub is given, byte by byte. ``GOLDEN=write pytest …`` writes the files anew, for a review of the diff."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specdec.records import BuildIdentity, ClaimKind, Reason, Status, Verdict
from pytest_specdec.report.data import ReportData
from pytest_specdec.report.github import annotation_lines, link_of, write_step_summary
from pytest_specdec.report.markdown import COMMENT_LIMIT, markdown
from pytest_specdec.report.text import whole_report
from tests.unit.report.hostile import hostile_report

GOLDEN = Path(__file__).parent / "golden"
LINK = "https://github.com/owner/project/actions/runs/1"


def _check(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def _ordinary_report() -> ReportData:
    verdicts = [
        ("lossless.greedy[dflash2]", Status.FAIL, Reason.TOKENS_DIFFER, "14 of 20 prompts differ"),
        ("tokens_per_cycle[dflash2]", Status.PASS, Reason.HELD, "4.456 tokens per cycle"),
        ("counters.repeat[dflash2+k4v]", Status.PASS, Reason.KNOWN_DEVIATION, "1 request differs"),
        ("pmin.mtp", Status.NOT_JUDGED, Reason.ARM_UNKNOWN, "nothing"),
    ]
    return ReportData(
        run="20261129-234840-4b661b", started="2026-11-29T23:48:40+00:00", ended="2026-11-29T23:49:01+00:00",
        build=BuildIdentity("path", "/new/llama-server", 11549, "abc1234", "version: 11549 (abc1234)", "asked for"),
        base=BuildIdentity("path", "/old/llama-server", 11434, None, "version: 11434", "asked for"),
        profile="tiny", device="cpu", machine="Linux x86_64, AMD EPYC", exit_status=1,
        tests=tuple(
            (
                f"suites/test_it.py::test[{claim}]",
                Verdict(claim, status, ClaimKind.EXACT, reason, measured, "as recorded", "study", "the cause\nof it"),
            )
            for claim, status, reason, measured in verdicts
        ),
    )  # fmt: skip


@pytest.mark.parametrize(("name", "report"), [("ordinary", _ordinary_report()), ("hostile", hostile_report())])
def test_the_step_summary(name: str, report: ReportData, tmp_path: Path) -> None:
    environment = {
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "owner/project",
        "GITHUB_RUN_ID": "1",
    }
    assert link_of(environment) == LINK
    assert write_step_summary(report, environment)
    _check(f"{name}.summary.md", (tmp_path / "summary.md").read_text("utf-8"))


@pytest.mark.parametrize(("name", "report"), [("ordinary", _ordinary_report()), ("hostile", hostile_report())])
def test_the_annotations(name: str, report: ReportData) -> None:
    _check(f"{name}.annotations.txt", "\n".join(annotation_lines(report)) + "\n")


def test_the_screen_of_a_hostile_run() -> None:
    _check("hostile.screen.txt", whole_report(hostile_report()) + "\n")


def test_a_comment_fits_and_is_cut_between_two_parts() -> None:
    report = hostile_report()
    text = markdown(report, limit=3_000)
    assert len(text) <= 3_000
    assert text.endswith("_The rest did not fit; the results file has all of it._\n")
    assert text.count("<details>") == text.count("</details>")
    assert len(markdown(report, limit=COMMENT_LIMIT)) <= COMMENT_LIMIT


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "https://x/<script>", "http://plain", "https://x y) [z](https://q"]
)
def test_a_link_is_one_link_or_none(link: str) -> None:
    text = markdown(_ordinary_report(), link=link)
    assert "javascript" not in text
    assert "<script>" not in text
    assert text.count("](<") == (1 if link.startswith("https://") else 0)
    assert "https://q" not in text


def test_an_interrupted_run_is_told_everywhere() -> None:
    report = replace(_ordinary_report(), exit_status=2, unfinished=("width.clamp[dflash2]", "speedup.code"))
    how = "interrupted (exit status 2): 2 selected claims not reached or not finished"
    text = markdown(report)
    assert text.startswith(f"## ❌ Speculative decoding: 4 claims: 1 fail, 1 not judged, 1 pass, 1 known, {how}\n")
    assert "--specdec-resume=DIR" in text
    assert "width&#46;clamp&#91;dflash2&#93;, speedup&#46;code" in text
    assert whole_report(report, "runs/one").splitlines()[-2:] == [
        how, "go on with it: the same command and --specdec-resume=runs/one",
    ]  # fmt: skip
    assert next(annotation_lines(report)) == (
        "::error title=interrupted (exit status 2)%3A 2 selected claims not reached or not finished::"
        "go on with it: the same command and --specdec-resume=DIR"
    )


def test_a_run_that_came_to_its_end_says_nothing_of_it() -> None:
    assert "exit status" not in markdown(_ordinary_report()) + whole_report(_ordinary_report())


def test_no_summary_file_no_summary() -> None:
    assert not write_step_summary(_ordinary_report(), {})
