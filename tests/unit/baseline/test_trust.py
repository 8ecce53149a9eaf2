"""A baseline that cannot be trusted is refused with its reason, and left as it is."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.baseline import chosen_folder, load
from pytest_specdec.baseline.describe import document_changes, old_entries, unused
from pytest_specdec.baseline.migrate import SCHEMA_VERSION, migrated
from pytest_specdec.baseline.store import read
from pytest_specdec.errors import BaselineError

SHA = "a" * 64


def old_document(workload: str = "mixed") -> dict[str, Any]:
    """A baseline as version 1 of the schema had it."""
    return {
        "schema": 1,
        "profile": "tiny",
        "device": "cpu",
        "entries": {
            "claim": {
                "kind": "recorded",
                "value": 4.0,
                "unit": "tokens per cycle",
                "tolerance": 0.05,
                "direction": "higher",
                "comparability": {"models": {"target": SHA}, "workload": workload, "workload_sha256": SHA, "arm": "x"},
                "provenance": {"build": "b1", "date": "2026-06-01"},
            }
        },
    }


def _file(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "tiny" / "cpu.json"
    path.parent.mkdir()
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_an_older_schema_is_read_and_the_file_left_as_it_is(tmp_path: Path) -> None:
    path = _file(tmp_path, old_document())
    before = path.read_bytes()
    entry = load(tmp_path, "tiny", "cpu").entries["claim"]
    assert entry.comparability is not None
    assert entry.comparability.workloads == {"mixed": SHA}
    assert path.read_bytes() == before


def test_a_migration_does_not_guess_what_was_not_stored() -> None:
    comparability = migrated(old_document("code prose"))["entries"]["claim"]["comparability"]
    assert comparability == {"models": {"target": SHA}, "workloads": {"code": SHA}, "arm": "x"}


def test_every_version_leads_to_the_present_one() -> None:
    for version in range(1, SCHEMA_VERSION):
        assert migrated({"schema": version, "entries": {}})["schema"] == SCHEMA_VERSION


@pytest.mark.parametrize("document", [[], "text", None, {"schema": True}, {"schema": 1, "entries": [1]}, {"schema": 1}])
def test_what_is_no_baseline_does_not_stop_the_migration(document: Any) -> None:
    migrated(document)


def test_the_files_of_the_project_are_valid() -> None:
    root = Path(__file__).parents[3] / "baselines"
    for path in sorted(root.rglob("*.json")):
        where = ("*", "*") if path.parent == root else (path.parent.name, path.stem)
        assert read(path, *where)["schema"] == SCHEMA_VERSION


def _with(**changes: Any) -> dict[str, Any]:
    return old_document() | changes


def _edited(**changes: Any) -> dict[str, Any]:
    document = old_document()
    document["entries"]["claim"] |= changes
    return document


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        (json.dumps(old_document())[:200], "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "not of type 'object'"),
        (_with(schema=99), "its schema is 99, this version reads up to"),
        (_with(schema="1"), "schema"),
        (_with(device="gpu"), "it says device 'gpu', its place says 'cpu'"),
        (_with(profile="other"), "it says profile 'other'"),
        (_edited(valeu=1), "did you mean 'value'"),
        (_edited(value="4.0"), "is not of type 'number'"),
        (_edited(tolerance=0), "tolerance"),
        (_edited(kind="guess"), "kind"),
        (_edited(provenance={}), "'build' is a required property"),
    ],
)
def test_a_file_that_is_not_right_is_refused_and_untouched(content: object, why: str, tmp_path: Path) -> None:
    path = _file(tmp_path, content)
    before = path.read_bytes()
    with pytest.raises(BaselineError, match=why) as caught:
        load(tmp_path, "tiny", "cpu")
    assert str(path) in str(caught.value)
    assert "remedy:" in str(caught.value)
    assert path.read_bytes() == before


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, "x")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BaselineError, match="reading the baseline"):
        load(tmp_path, "tiny", "cpu")


def test_differences_are_told_for_a_review() -> None:
    before, after = migrated(old_document()), migrated(old_document())
    after["entries"]["claim"] |= {"value": 3.0, "tolerance": 0.1}
    after["entries"]["new"] = {"kind": "invariant", "lineages": [{"name": "master", "expect": "honoured"}]}
    deviation = {"claim": "c", "reason": "held", "reference": "#1", "instead": "it does not", "seen": "today"}
    after["known_deviations"] = [deviation]
    assert document_changes(before, after) == [
        "~ claim: 4 → 3 tokens per cycle (-25.00%, worse)",
        "    tolerance: 0.05 → 0.1",
        "+ new: invariant honoured (master)",
        "+ known deviation c: it does not",
    ]
    assert document_changes(after, before)[-1] == "- known deviation c: it does not"
    assert document_changes(before, before) == []


def test_what_no_claim_reads_is_unused(tmp_path: Path) -> None:
    _file(tmp_path, old_document())
    stored = load(tmp_path, "tiny", "cpu")
    assert "claim" not in unused(stored, ["claim"])
    assert "claim" in unused(stored, ["other"])


def test_an_old_record_says_so() -> None:
    document = migrated(old_document())
    assert old_entries(document, date(2026, 8, 1)) == []
    assert old_entries(document, date(2026, 9, 15))[0].startswith("claim: recorded 106 days ago")


@pytest.mark.parametrize(
    ("named", "words"),
    [("baselnes", "there is no such folder"), ("baselines/tiny", "it holds no"), ("empty", "it holds no")],
)
def test_a_folder_that_was_named_and_holds_no_baselines_is_refused(tmp_path: Path, named: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "baselines" / "tiny").mkdir(parents=True)
    (tmp_path / "baselines" / "tiny" / "cpu.json").write_text("{}", "utf-8")
    with pytest.raises(BaselineError, match=words) as caught:
        chosen_folder(tmp_path / named, tmp_path)
    assert ("did you mean" in str(caught.value)) == (named == "baselnes")
    assert chosen_folder(tmp_path / named, tmp_path, may_be_new=True) == tmp_path / named
    assert chosen_folder(tmp_path / "baselines", tmp_path) == tmp_path / "baselines"


def test_a_folder_with_invariants_alone_holds_baselines(tmp_path: Path) -> None:
    (tmp_path / "any.json").write_text("{}", "utf-8")
    assert chosen_folder(tmp_path, tmp_path) == tmp_path
