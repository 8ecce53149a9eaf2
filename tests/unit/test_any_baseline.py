"""A folder of somebody's own records is not without the invariants and the known deviations."""

from pathlib import Path

from pytest_specdec import baseline


def test_the_packages_own_invariants_apply_where_a_folder_has_none(tmp_path: Path) -> None:
    loaded = baseline.load(tmp_path, "tiny", "cpu")
    entry = loaded.entry("pmin.dflash2")
    assert entry is not None
    assert [lineage.expect for lineage in entry.lineages] == ["ignored", "honoured"]
    assert loaded.deviations


def test_a_folders_own_invariants_replace_them(tmp_path: Path) -> None:
    (tmp_path / "any.json").write_text('{"schema": 2, "profile": "*", "device": "*", "entries": {}}', "utf-8")
    assert baseline.load(tmp_path, "tiny", "cpu").entry("pmin.dflash2") is None
