"""What a run may write into a baseline, and what it may not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.baseline import Comparability, Record, Recording, load, write_records
from pytest_specdec.baseline.entries import Direction, StoredContrast
from pytest_specdec.errors import BaselineError

SHA = "a" * 64
SETTING = Comparability({"target": SHA}, {"mixed": SHA}, "--spec-type draft-dflash")
RECORDING = Recording({"build": "b2", "date": "2026-11-29"})
BEFORE = Recording({"build": "b1", "date": "2026-10-01"})


def _record(value: float, direction: Direction = Direction.HIGHER, setting: Comparability = SETTING) -> Record:
    return Record("claim", value, "tokens per cycle", 0.05, direction, setting)


def _written(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A baseline with the claim at 4.0, higher is better."""
    file = tmp_path / "tiny" / "cpu.json"
    write_records(file, "tiny", "cpu", [_record(4.0)], BEFORE)
    return file


def test_a_first_record_makes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "tiny" / "cpu.json"
    assert write_records(file, "tiny", "cpu", [_record(4.0)], RECORDING) == [
        "+ claim: recorded 4 tokens per cycle, b2 of 2026-11-29"
    ]
    assert load(tmp_path / "new", "tiny", "cpu").entries["claim"].value == 4.0


def test_a_better_value_replaces_the_old_one(path: Path) -> None:
    changes = write_records(path, "tiny", "cpu", [_record(4.4)], RECORDING)
    assert changes[0] == "~ claim: 4 → 4.4 tokens per cycle (+10.00%, better)"
    assert "accepted_regression" not in _written(path)["entries"]["claim"]["provenance"]


@pytest.mark.parametrize(
    ("direction", "before", "after"),
    [
        (Direction.HIGHER, 4.0, 3.999),
        (Direction.LOWER, 4.0, 4.001),
        (Direction.EQUAL, 4.0, 4.001),
        (Direction.EQUAL, 4.0, 3.999),
    ],
)
def test_a_worse_value_needs_a_reason(direction: Direction, before: float, after: float, tmp_path: Path) -> None:
    path = tmp_path / "tiny" / "cpu.json"
    write_records(path, "tiny", "cpu", [_record(before, direction)], BEFORE)
    bytes_before = path.read_bytes()
    with pytest.raises(BaselineError, match="moved against their direction") as caught:
        write_records(path, "tiny", "cpu", [_record(after, direction)], RECORDING)
    assert "--specdec-accept-regression" in str(caught.value)
    assert path.read_bytes() == bytes_before


def test_the_reason_is_kept_with_the_entry_until_it_is_recorded_again(path: Path) -> None:
    accepted = replace(RECORDING, accepted_regression="a smaller drafter")
    write_records(path, "tiny", "cpu", [_record(3.5)], accepted)
    kept = _written(path)["entries"]["claim"]["provenance"]["accepted_regression"]
    assert kept == {"reason": "a smaller drafter", "value_before": 4.0, "build_before": "b1"}
    assert load(path.parent.parent, "tiny", "cpu").entries["claim"].value == 3.5
    write_records(path, "tiny", "cpu", [_record(3.6)], accepted)
    assert "accepted_regression" not in _written(path)["entries"]["claim"]["provenance"]


def test_one_worse_value_keeps_all_others_out(path: Path) -> None:
    other = replace(_record(9.0), claim="other")
    with pytest.raises(BaselineError):
        write_records(path, "tiny", "cpu", [other, _record(1.0)], RECORDING)
    assert list(_written(path)["entries"]) == ["claim"]


def test_a_value_of_another_setting_is_no_regression(path: Path) -> None:
    setting = replace(SETTING, models={"target": "b" * 64})
    write_records(path, "tiny", "cpu", [_record(1.0, setting=setting)], RECORDING)
    assert _written(path)["entries"]["claim"]["value"] == 1.0


def test_a_measured_ratio_may_move_within_its_own_noise(tmp_path: Path) -> None:
    path = tmp_path / "tiny" / "cpu.json"
    stored = StoredContrast({"p": 0.7}, {"p": 0.7}, (1.0, 2.0), 20, 0.04, 0.01, 0.01, 4, 0.05)
    record = replace(_record(2.0), contrast=stored)
    write_records(path, "tiny", "cpu", [record], BEFORE)
    write_records(path, "tiny", "cpu", [replace(record, value=1.98)], RECORDING)
    with pytest.raises(BaselineError):
        write_records(path, "tiny", "cpu", [replace(record, value=1.7)], RECORDING)


def test_new_only_adds(path: Path) -> None:
    only_new = replace(RECORDING, only_new=True)
    other = replace(_record(9.0), claim="other")
    assert len(write_records(path, "tiny", "cpu", [_record(1.0), other], only_new)) == 1
    assert _written(path)["entries"]["claim"]["value"] == 4.0


def test_nothing_new_leaves_the_file_alone(path: Path) -> None:
    before = path.stat().st_mtime_ns
    assert write_records(path, "tiny", "cpu", [_record(4.0)], BEFORE) == []
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("kind", ["published", "invariant"])
def test_what_was_not_measured_here_is_not_replaced(kind: str, path: Path) -> None:
    document = _written(path)
    published = {"kind": kind, "value": 2.0, "unit": "x", "direction": "higher", "source": "study"}
    invariant = {"kind": kind, "source": "study"}
    document["entries"]["claim"] = published if kind == "published" else invariant
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(BaselineError, match=f"its entry is {kind}"):
        write_records(path, "tiny", "cpu", [_record(9.0)], RECORDING)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "tiny").write_text("a file where the folder should be", "utf-8")
    with pytest.raises(BaselineError, match="--specdec-baselines"):
        write_records(tmp_path / "tiny" / "cpu.json", "tiny", "cpu", [_record(1.0)], RECORDING)
