from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.errors import ModelError
from pytest_specdec.models import family
from pytest_specdec.models.family import member_path, members, sha256_of

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE = 1_000_000


def entry(file: str, **changed: Any) -> dict[str, Any]:
    return {
        "file": file,
        "sha256": "0" * 64,
        "size": 4,
        "parameters": 1,
        "arch": "qwen3",
        "about": "a member",
        "training": {},
        **changed,
    }


def write_manifest(directory: Path, content: object) -> None:
    (directory / "manifest.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize("name", ["target", "dflash2", "dflash1", "draft"])
def test_every_shipped_member_is_the_declared_file(name: str) -> None:
    assert member_path(name).read_bytes()[:4] == b"GGUF"


def test_the_manifest_lists_every_shipped_file_and_its_size() -> None:
    listed = {member.file: member.size for member in members().values()}
    assert listed == {path.name: path.stat().st_size for path in family.SHIPPED.glob("*.gguf")}


def test_the_family_fits_into_fifteen_megabytes() -> None:
    assert sum(path.stat().st_size for path in family.SHIPPED.glob("*.gguf")) <= 15 * MEGABYTE


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "a.gguf"
    model.write_bytes(b"GGUF")
    write_manifest(tmp_path, {"members": {"a": entry("a.gguf", sha256=sha256_of(model))}})
    assert member_path("a", tmp_path) == model
    model.write_bytes(b"GGUf")
    with pytest.raises(ModelError, match="not the file that was declared") as caught:
        member_path("a", tmp_path)
    assert "reinstall" in caught.value.remedy


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write_manifest(tmp_path, {"members": {"a": entry("a.gguf")}})
    with pytest.raises(ModelError, match=r"a\.gguf does not exist"):
        member_path("a", tmp_path)


def test_a_file_that_cannot_be_read_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").mkdir()
    write_manifest(tmp_path, {"members": {"a": entry("a.gguf")}})
    with pytest.raises(ModelError, match="cannot be read"):
        member_path("a", tmp_path)


def test_an_unknown_name_gets_the_known_ones() -> None:
    with pytest.raises(ModelError, match="dflash1, dflash2, draft, target"):
        member_path("dflash3")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "not valid JSON"),
        ("[]", "no object 'members'"),
        ('{"members": []}', "no object 'members'"),
        ('{"members": {"a": {"file": "a.gguf"}}}', "KeyError: 'sha256'"),
        ('{"members": {"a": "a.gguf"}}', "wrong type"),
        (json.dumps({"members": {"a": entry("a.gguf", size="big")}}), "wrong type"),
    ],
)
def test_a_damaged_manifest_is_explained(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=why):
        member_path("a", tmp_path)


def test_a_missing_manifest_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        members(tmp_path)
