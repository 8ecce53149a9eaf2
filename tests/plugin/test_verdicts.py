"""What pytest, JUnit XML and the results file make of each verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_specdec.schema import problems
from tests.support import gate, lines_of, results_of

SUITE = """
import pytest
from pytest_specdec.records import Finding, Reason, Status

def finding(status, reason):
    return Finding(status, reason, f"saw {status}", "something else", f"why {status}", f"cure for {status}",
                   {"number": 1.5, "text": "ü"})

@pytest.mark.claim("held", source="test", arm="base", on="mixed")
def test_held(claim, server):
    server.start()
    claim.holds(True, measured="7 of 7", expected="7", evidence={"seven": 7})

@pytest.mark.claim("failed", source="test", arm="base", on="mixed")
def test_failed(claim):
    claim.judge(finding(Status.FAIL, Reason.WIDTH_EXCEEDED))

@pytest.mark.claim("voided", source="test", arm="base", on="mixed")
def test_voided(claim):
    claim.judge(finding(Status.VOID, Reason.THROTTLED))

@pytest.mark.claim("open", source="test", arm="base", on="mixed")
def test_open(claim):
    claim.judge(finding(Status.INCONCLUSIVE, Reason.NOT_ENOUGH_EVIDENCE))

@pytest.mark.claim("unjudged", source="test", arm="base", on="mixed")
def test_unjudged(claim):
    claim.judge(finding(Status.NOT_JUDGED, Reason.NO_RECORD))

@pytest.mark.claim("elsewhere", source="test", arm="mtp", on="mixed")
def test_elsewhere(cells):
    cells["mtp"]

@pytest.mark.claim("known", source="test", arm="base", on="mixed")
def test_known(claim):
    claim.judge(finding(Status.FAIL, Reason.COUNTERS_DISAGREE))

@pytest.mark.claim("elsewise", source="test", arm="base", on="mixed")
def test_elsewise(claim):
    claim.holds(False, measured="new", expected="old", otherwise=Reason.COUNTERS_DISAGREE)

@pytest.mark.claim("gone", source="test", arm="base", on="mixed")
def test_gone(claim, server):
    server.start()
    claim.holds(True, measured="as it should", expected="that")

@pytest.mark.claim("asserted", source="test", arm="base", on="mixed")
def test_asserted(claim):
    width = 8
    claim.holds(True, measured="a", expected="a")
    assert width <= 7, "the draft is too wide"

@pytest.mark.claim("narrow", source="test", arm="base", on="mixed")
def test_narrow(claim):
    claim.holds(False, measured="width 3", expected="above 4.5")

@pytest.mark.claim("idle", source="test", arm="base", on="mixed")
def test_idle():
    pass

@pytest.mark.claim("said", source="test", arm="base", on="mixed")
def test_said(claim):
    claim.holds(True, measured="nothing at all", expected="to be believed")

@pytest.mark.claim("expected", source="test", arm="base", on="mixed")
@pytest.mark.xfail(reason="upstream is at it")
def test_expected(claim):
    claim.judge(finding(Status.FAIL, Reason.SLOWER))

@pytest.mark.claim("skipped", source="test", arm="base", on="mixed")
def test_skipped():
    pytest.skip("not today")

def test_that_is_no_claim():
    pass
"""
DEVIATIONS = {
    "schema": 1,
    "profile": "*",
    "device": "*",
    "entries": {},
    "known_deviations": [
        {
            "claim": name,
            "reason": "counters_disagree",
            "first_build": None,
            "last_build": None,
            "reference": "ggml-org/llama.cpp#1",
            "instead": "it counts twice",
            "seen": "2026-11-29 on b11549",
            "says": "saw fail",
        }
        for name in ("known", "elsewise", "gone")
    ],
}
STATUS = {
    "held": ("pass", "held"),
    "failed": ("fail", "width_exceeded"),
    "voided": ("void", "throttled"),
    "open": ("inconclusive", "not_enough_evidence"),
    "unjudged": ("not judged", "no_record"),
    "elsewhere": ("not judged", "arm_unknown"),
    "known": ("pass", "known_deviation"),
    "elsewise": ("fail", "counters_disagree"),
    "gone": ("pass", "deviation_gone"),
    "asserted": ("fail", "assertion"),
    "narrow": ("fail", "assertion"),
    "idle": ("fail", "nothing_measured"),
    "said": ("fail", "nothing_measured"),
    "expected": ("fail", "slower"),
}


class Outcome:
    """One run of the suite above: what was said, and the files that it left."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        (directory / "test_suite.py").write_text(SUITE, "utf-8")
        (directory / "baselines").mkdir()
        (directory / "baselines" / "any.json").write_text(json.dumps(DEVIATIONS), "utf-8")
        self.run = directory / "evidence"
        self.copy = directory / "out" / "report.json"
        self.history = directory / "out" / "history.jsonl"
        done = gate(
            "-v", "--junit-xml=junit.xml", f"--specdec-run-dir={self.run}", f"--specdec-report={self.copy}", *arguments,
            cwd=directory, SPECDEC_HISTORY=str(self.history),
        )  # fmt: skip
        self.code = done.returncode
        self.lines = done.stdout.splitlines()
        self.screen = pytest.LineMatcher(self.lines)
        self.junit = ElementTree.parse(directory / "junit.xml").getroot()
        self.document: dict[str, Any] = json.loads((self.run / "results.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The suite is run once; every test below looks at another side of it."""
    return Outcome(tmp_path_factory.mktemp("verdicts"))


def test_each_verdict_has_its_own_word_and_outcome(outcome: Outcome) -> None:
    outcome.screen.fnmatch_lines_random([
        "*::test_held PASSED*",
        "*::test_failed FAILED*",
        "*::test_voided VOID*",
        "*::test_open INCONCLUSIVE*",
        "*::test_unjudged NOT JUDGED*",
        "*::test_elsewhere NOT JUDGED*",
        "*::test_known KNOWN*",
        "*::test_gone PASSED*",
        "*::test_asserted FAILED*",
        "*::test_idle FAILED*",
        "*::test_expected XFAIL*",
        "*::test_skipped SKIPPED*",
        "*::test_that_is_no_claim PASSED*",
    ])  # fmt: skip
    assert outcome.code == pytest.ExitCode.TESTS_FAILED


def test_the_screen_has_a_line_per_claim_the_reasons_the_remedies_and_the_command(outcome: Outcome) -> None:
    outcome.screen.fnmatch_lines([
        "*claims about speculative decoding*",
        "PASS         held      7 of 7; expected 7  [[]test]",
        "FAIL         failed    saw fail; expected something else  [[]test]",
        "VOID         voided    *",
        "KNOWN        known     *",
        "NOT JUDGED   (arm_unknown) elsewhere",
    ])  # fmt: skip
    outcome.screen.fnmatch_lines_random([
        "FAIL (width_exceeded): failed *",
        "VOID (throttled): voided *",
        "*  why void",
        "*  remedy:   cure for void",
        "*there is no arm 'mtp'*",
        "FAIL (assertion): narrow *",
        "*known: it counts twice (ggml-org/llama.cpp#1)",
        "*not the known deviation (ggml-org/llama.cpp#1)",
        "*the known deviation ggml-org/llama.cpp#1 did not happen",
        "14 claims: 7 fail, 1 void, 1 inconclusive, 2 not judged, 2 pass, 1 known",
        "again: pytest --specdec-report=*",
    ])  # fmt: skip


def test_the_command_that_does_it_again_names_what_is_red(outcome: Outcome) -> None:
    again = next(line for line in outcome.lines if line.startswith("again: "))
    assert "--specdec-run-dir" not in again  # it would be refused: it holds this run
    for name in ("failed", "voided", "open", "asserted", "idle"):
        assert f"::test_{name}" in again
    for name in ("held", "unjudged", "known", "gone"):
        assert f"::test_{name}" not in again


def test_a_plain_assert_keeps_the_view_that_pytest_has_of_it(outcome: Outcome) -> None:
    outcome.screen.fnmatch_lines(["*assert width <= 7*", "E*AssertionError: the draft is too wide", "E*assert 8 <= 7"])
    assert results_of(outcome.run)["asserted"]["measured"] == "the draft is too wide"


def test_no_traceback_of_ours(outcome: Outcome) -> None:
    for words in ("Traceback", "pytest_specdec/", "INTERNALERROR"):
        assert not [line for line in outcome.lines if words in line]


def test_the_results_file_carries_every_verdict_and_obeys_its_schema(outcome: Outcome) -> None:
    assert {name: (row["status"], row["reason"]) for name, row in results_of(outcome.run).items()} == STATUS
    assert problems(outcome.document, "pytest_specdec.report", "results.schema.json") == []
    failed = results_of(outcome.run)["failed"]
    assert failed["evidence"] == {"number": 1.5, "text": "ü"}
    assert (failed["measured"], failed["expected"], failed["detail"]) == ("saw fail", "something else", "why fail")
    assert failed["test"].endswith("::test_failed")
    assert outcome.document["exit_status"] == pytest.ExitCode.TESTS_FAILED
    assert outcome.document["summary"] == {"pass": 3, "fail": 7, "void": 1, "inconclusive": 1, "not judged": 2}


def test_the_report_that_was_asked_for_is_the_same_file(outcome: Outcome) -> None:
    assert outcome.copy.read_bytes() == (outcome.run / "results.json").read_bytes()


def test_junit_xml_carries_the_same(outcome: Outcome) -> None:
    cases = {case.attrib["name"]: case for case in outcome.junit.iter("testcase")}
    told = {name: {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")} for name, case in cases.items()}
    verdicts = {
        properties["specdec.claim"]: (properties["specdec.status"], properties["specdec.reason"])
        for properties in told.values()
        if properties
    }
    assert verdicts == STATUS
    assert json.loads(told["test_failed"]["specdec.evidence"]) == {"number": 1.5, "text": "ü"}
    assert cases["test_voided"].find("failure") is not None
    assert cases["test_open"].find("failure") is not None
    assert cases["test_unjudged"].find("skipped") is not None
    assert cases["test_held"].find("failure") is None
    assert not told["test_that_is_no_claim"]


def test_inconclusive_may_be_skipped(tmp_path: Path) -> None:
    outcome = Outcome(tmp_path, "--specdec-inconclusive=skip", "-k", "open or held")
    assert outcome.code == pytest.ExitCode.OK
    assert results_of(outcome.run)["open"]["status"] == "inconclusive"
    outcome.screen.fnmatch_lines(["*::test_open INCONCLUSIVE*"])


@pytest.mark.parametrize("selection", ["unjudged or elsewhere", "skipped"])
def test_a_run_that_judged_nothing_is_red(tmp_path: Path, selection: str) -> None:
    outcome = Outcome(tmp_path, "-k", selection)
    assert outcome.code == pytest.ExitCode.TESTS_FAILED
    assert outcome.document["exit_status"] == pytest.ExitCode.TESTS_FAILED


def test_known_deviations_alone_do_not_make_a_run_red(tmp_path: Path) -> None:
    assert Outcome(tmp_path, "-k", "test_known or test_gone").code == pytest.ExitCode.OK


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_hostile_words_stay_harmless(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    hostile = '\ud800 </property>]]> \x00\x1b[2J "quoted" \'\n::error::x\u2028 💥'
    pytester.makepyfile(f"""
        import pytest

        HOSTILE = {hostile!r}

        @pytest.mark.claim("hostile", source=HOSTILE, arm="base", on="mixed")
        def test_hostile(claim):
            claim.holds(False, measured=HOSTILE, expected=HOSTILE, detail=HOSTILE,
                        evidence={{HOSTILE: [HOSTILE, float("nan"), float("inf")]}})
    """)
    run = pytester.path / "evidence"
    result = pytester.runpytest_subprocess(f"--specdec-run-dir={run}", "--junit-xml=junit.xml", *arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    row = results_of(run)["hostile"]
    told = hostile.replace("\ud800", "?")  # half a character, which UTF-8 cannot hold
    assert row["measured"] == row["source"] == told
    assert row["evidence"] == {told: [told, None, None]}
    assert ElementTree.parse(pytester.path / "junit.xml").getroot().find(".//failure") is not None


def test_the_run_appends_a_line_to_the_history(outcome: Outcome) -> None:
    (row,) = lines_of(outcome.history)
    assert row["run"] == outcome.run.name
    told = [(v["claim"], v["status"]) for v in row["verdicts"]]
    assert told == [(v["claim"], v["status"]) for v in outcome.document["verdicts"]]


def test_an_unwritable_report_is_told_and_makes_the_run_red(pytester: pytest.Pytester) -> None:
    (pytester.path / "file").write_text("in the way")
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(
        "-k", "held", "--specdec-report=file/report.json", "--specdec-history=history.jsonl"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["PASS *held*", "writing the results to file/report.json", "  why: *", "  remedy: *"])
    assert list(lines_of(pytester.path / "history.jsonl")), "the history has its line all the same"
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize("other", [False, True])
def test_quiet_shows_the_verdicts_alone_unless_something_else_is_broken(pytester: pytest.Pytester, other: bool) -> None:
    pytester.makepyfile(test_it=SUITE + "\ndef test_other(): assert not 'broken'\n")
    selected = "failed or voided" + (" or other" if other else "")
    result = pytester.runpytest_subprocess("--specdec-quiet", "-k", selected, "--junit-xml=junit.xml")
    result.stdout.fnmatch_lines(["FAIL         failed *", "VOID         voided *", "2 claims: 1 fail, 1 void"])
    result.stdout.no_fnmatch_line("*why void*")
    if other:
        result.stdout.fnmatch_lines(["*def test_other*"])
    else:
        result.stdout.no_fnmatch_line("*why fail*")
    assert "why fail" in (pytester.path / "junit.xml").read_text("utf-8")


def test_a_run_that_stops_early_names_the_claims_that_it_did_not_reach(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE)
    names = ("skipped", "failed", "known")  # in the order of the suite: failed, known, skipped
    result = pytester.runpytest_subprocess("-x", "-k", " or ".join(names), "--specdec-run-dir=run")
    result.stdout.fnmatch_lines(["stopped early (exit status 1): 2 selected claims not reached or not finished"])
    document = json.loads((pytester.path / "run" / "results.json").read_text("utf-8"))
    assert document["unfinished"] == ["known", "skipped"]
    whole = pytester.runpytest_subprocess("-k", "held or skipped")
    whole.stdout.no_fnmatch_line("*not reached*")


def test_a_run_directory_that_holds_a_run_is_refused(outcome: Outcome) -> None:
    before = (outcome.run / "run.json").read_bytes()
    again = gate("-k", "held", f"--specdec-run-dir={outcome.run}", cwd=outcome.run.parent)
    assert again.returncode == pytest.ExitCode.USAGE_ERROR
    pytest.LineMatcher(again.stderr.splitlines()).fnmatch_lines([
        "ERROR: beginning a run in *", "  why:    it holds another run", "  remedy: *",
    ])  # fmt: skip
    assert (outcome.run / "run.json").read_bytes() == before


def test_without_a_run_directory_the_evidence_is_under_the_rootdir(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE)
    pytester.runpytest_subprocess("-k", "test_held")
    (run,) = (pytester.path / ".specdec" / "runs").iterdir()
    assert {path.name for path in run.iterdir()} >= {"run.json", "results.json", "logs"}
    identity = json.loads((run / "run.json").read_text("utf-8"))
    assert identity["build"]["why"].startswith("asked for by")
    assert identity["claims"] == ["held"]
    assert identity["versions"]["pytest-specdec"]
