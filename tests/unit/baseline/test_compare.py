"""One value against its entry: worse, better, of another setting, of another device, or no number at all."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path

import pytest

from pytest_specdec.baseline import Comparability, Entry, compare
from pytest_specdec.baseline.entries import Direction, EntryKind, KnownDeviation, Lineage
from pytest_specdec.baseline.store import Baselines, load
from pytest_specdec.errors import BaselineError, SuiteError
from pytest_specdec.places import packaged
from pytest_specdec.records import Finding, Reason, Status

SAME = Comparability({"target": "a" * 64}, {"mixed": "b" * 64}, "--spec-type draft-dflash")
TODAY = date(2026, 11, 29)


def recorded(value: float = 4.0, direction: Direction = Direction.HIGHER, day: str = "2026-11-01") -> Entry:
    return Entry(
        "tokens_per_cycle[dflash2]", EntryKind.RECORDED, value, "tokens per cycle", 0.05, direction,
        comparability=SAME, provenance={"build": "b11549", "date": day},
    )  # fmt: skip


def judged(entry: Entry, value: float, now: Comparability = SAME, unit: str = "tokens per cycle") -> Finding:
    return compare(entry, value, unit, now, TODAY)


@pytest.mark.parametrize(
    ("direction", "value", "held"),
    [
        (Direction.HIGHER, 4.0, True),
        (Direction.HIGHER, 3.81, True),
        (Direction.HIGHER, 3.79, False),
        (Direction.HIGHER, 9.0, True),
        (Direction.LOWER, 4.19, True),
        (Direction.LOWER, 4.21, False),
        (Direction.LOWER, 1.0, True),
        (Direction.EQUAL, 3.79, False),
        (Direction.EQUAL, 4.21, False),
        (Direction.EQUAL, 4.19, True),
    ],
)
def test_worse_by_more_than_the_tolerance_fails(direction: Direction, value: float, held: bool) -> None:
    finding = judged(recorded(direction=direction), value)
    assert finding.status is (Status.PASS if held else Status.FAIL)
    assert finding.reason is (Reason.HELD if held else Reason.RECORD_MOVED)
    assert f"{value:.3f} tokens per cycle" in finding.measured
    assert finding.expected == "4.000 tokens per cycle ± 5% (b11549, 2026-11-01)"
    assert finding.evidence["change"] == pytest.approx(value / 4.0 - 1)


def test_a_gain_is_remarked_since_a_later_loss_of_it_would_go_unseen() -> None:
    assert "better by 25.0%: record it" in judged(recorded(), 5.0).detail


def test_an_old_record_says_so() -> None:
    assert "the record is 333 days old: record anew" in judged(recorded(day="2025-12-31"), 4.0).detail
    assert not judged(recorded(day="2026-09-01"), 4.0).detail


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Comparability({"target": "c" * 64}, SAME.workloads, SAME.arm), "model target: recorded with aaaaaaaaaaaa"),
        (Comparability({}, SAME.workloads, SAME.arm), "measured with none"),
        (Comparability(SAME.models, {"mixed": "c" * 64}, SAME.arm), "workload mixed: recorded with bbbbbbbbbbbb"),
        (Comparability(SAME.models, SAME.workloads, "--spec-type ngram-mod"), "measured with --spec-type ngram-mod"),
    ],
)
def test_a_record_of_another_setting_decides_nothing(now: Comparability, words: str) -> None:
    finding = judged(recorded(), 4.0, now)
    assert (finding.status, finding.reason) == (Status.VOID, Reason.BASELINE_MISMATCH)
    assert words in finding.detail
    assert "--specdec-update-baseline" in finding.remedy


def test_nor_does_one_in_another_unit() -> None:
    finding = judged(recorded(), 4.0, unit="tokens per second")
    assert (finding.status, finding.reason) == (Status.VOID, Reason.BASELINE_MISMATCH)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("entry", [recorded(), Entry("c", EntryKind.PUBLISHED, 2.0, "x", floor=1.0)])
def test_what_is_no_number_is_never_a_pass(entry: Entry, value: float) -> None:
    finding = judged(entry, value)
    assert (finding.status, finding.reason) == (Status.VOID, Reason.ARITHMETIC)


@pytest.mark.parametrize(
    ("direction", "value", "status"),
    [
        (Direction.HIGHER, 0.0, Status.PASS),
        (Direction.LOWER, 0.0, Status.PASS),
        (Direction.EQUAL, 0.0, Status.PASS),
        (Direction.EQUAL, 0.1, Status.FAIL),
        (Direction.LOWER, 0.1, Status.FAIL),
        (Direction.HIGHER, 0.1, Status.PASS),
        (Direction.HIGHER, -0.1, Status.FAIL),
    ],
)
def test_a_record_of_zero(direction: Direction, value: float, status: Status) -> None:
    assert judged(recorded(0.0, direction), value).status is status


@pytest.mark.parametrize(
    ("direction", "floor", "value", "held"),
    [
        (Direction.HIGHER, 2.0, 2.1, True),
        (Direction.HIGHER, 2.0, 1.9, False),
        (Direction.LOWER, 2.0, 1.9, True),
        (Direction.LOWER, 2.0, 2.1, False),
        (Direction.HIGHER, None, 0.1, True),
    ],
)
def test_a_published_entry_gives_its_floor_only(
    direction: Direction, floor: float | None, value: float, held: bool
) -> None:
    entry = Entry(
        "c", EntryKind.PUBLISHED, 3.5, "x", direction=direction, floor=floor, device="rtx-pro-6000", caveat="at 8k"
    )
    finding = judged(entry, value, unit="x")
    assert finding.status is (Status.PASS if held else Status.FAIL)
    assert finding.reason is (Reason.HELD if held else Reason.BELOW_FLOOR)
    assert "published 3.5 x on rtx-pro-6000" in finding.expected
    assert finding.detail == "at 8k"


def test_an_entry_without_a_value_cannot_be_compared_with() -> None:
    with pytest.raises(SuiteError, match="stores no value"):
        judged(Entry("pmin.dflash2", EntryKind.INVARIANT), 1.0)


def test_lineages_have_ends_and_an_unknown_build_is_a_current_one() -> None:
    old, new = Lineage("old", None, 10657, "ignored"), Lineage("new", 10658, None, "honoured")
    covered = {
        build: [item.name for item in (old, new) if item.covers(build)] for build in (1, 10657, 10658, 20000, None)
    }
    assert covered == {1: ["old"], 10657: ["old"], 10658: ["new"], 20000: ["new"], None: ["new"]}


def test_known_deviations_cover_claims_by_pattern_and_builds_by_range() -> None:
    known = KnownDeviation("counters.repeat[dflash2+*]", "counters_disagree", 100, 200, "ref", "instead", "seen")
    baselines = Baselines("cpu", Path("x.json"), {}, (known,))
    assert baselines.deviations_of("counters.repeat[dflash2+k4v]", 150) == [known]
    assert baselines.deviations_of("counters.repeat[dflash2]", 150) == []
    assert baselines.deviations_of("counters.repeat[dflash2+k4v]", 201) == []
    assert baselines.deviations_of("counters.repeat[dflash2+k4v]", 99) == []
    assert baselines.deviations_of("counters.repeat[dflash2+k4v]", None) == []


def test_a_known_deviation_explains_one_failure_and_no_other() -> None:
    known = KnownDeviation("c", "server_died", None, None, "ref", "instead", "seen", r"assert in ngram-map\b")
    assert known.explains(Reason.SERVER_DIED, "code -6\nan assert in ngram-map.cpp")
    assert not known.explains(Reason.SERVER_DIED, "code -11")
    assert not known.explains(Reason.TOKENS_DIFFER, "an assert in ngram-map.cpp")


def test_every_known_deviation_of_the_package_says_how_it_shows() -> None:
    known = load(packaged("baselines"), "tiny", "cpu").deviations
    assert known
    assert [d.claim for d in known if not d.says] == []


def test_what_a_deviation_says_must_be_a_pattern(tmp_path: Path) -> None:
    row = {"claim": "c", "reason": "slower", "reference": "r", "instead": "i", "seen": "s", "says": "("}
    document = {"schema": 2, "profile": "*", "device": "*", "entries": {}, "known_deviations": [row]}
    (tmp_path / "any.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(BaselineError, match="no regular expression"):
        load(tmp_path, "tiny", "cpu")


ROW = {
    "kind": "recorded",
    "value": 4.0,
    "unit": "x",
    "tolerance": 0.05,
    "direction": "higher",
    "comparability": {"models": {}, "workloads": {"mixed": "b" * 64}, "arm": ""},
    "provenance": {"build": "b1", "date": "2026-11-01"},
}
FILE = {"schema": 2, "profile": "tiny", "device": "cpu", "entries": {"c": ROW}}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"value": 4.0', '"value": NaN', "NaN is no number"),
        ('"value": 4.0', '"value": -Infinity', "-Infinity is no number"),
        ('"value": 4.0', '"value": "4.0"', "entries.c.value"),
        ('"value": 4.0', '"value": 4.0, "value": 5.0', "'value' more than once"),
        ('"2026-11-01"', '"last week"', "entries.c.provenance.date"),
        ('"tolerance": 0.05', '"tolerance": 0', "entries.c.tolerance"),
        ('"tolerance": 0.05', '"tolerence": 0.05', "did you mean 'tolerance'?"),
    ],
)
def test_an_edit_by_hand_that_would_make_a_record_meaningless_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = tmp_path / "tiny" / "cpu.json"
    path.parent.mkdir()
    text = json.dumps(FILE)
    assert old in text
    path.write_text(text)
    assert load(tmp_path, "tiny", "cpu").entry("c") is not None
    path.write_text(text.replace(old, new))
    with pytest.raises(BaselineError) as caught:
        load(tmp_path, "tiny", "cpu")
    assert str(path) in str(caught.value)
    assert words in str(caught.value)
    assert path.read_text() == text.replace(old, new)
