"""Model references: where a file is looked for, and that a damaged one is not taken for a build that cannot load it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_specdec.errors import ModelError
from pytest_specdec.profile import load, resolve
from tests.unit.models.small_model import write_small_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.gguf"
    write_small_model(path)
    return path


def test_a_path_as_it_is_given(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = resolve("target", str(model), "profile.toml")
    assert found.path == model
    assert found.sha256 == hashlib.sha256(model.read_bytes()).hexdigest()
    monkeypatch.setenv("MODELS", str(model.parent))
    monkeypatch.setenv("HOME", str(model.parent))
    assert resolve("target", "$MODELS/small.gguf", "p.toml").path == model
    assert resolve("target", "~/small.gguf", "p.toml").path == model


def test_beside_the_profile_and_in_the_cache(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve("target", "small.gguf", str(tmp_path / "profile.toml")).path == model
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path))
    assert resolve("target", "small.gguf", "/elsewhere/profile.toml").path == model


def test_a_repository_is_for_the_server_to_find() -> None:
    found = resolve("target", "hf:org/model:Q4_K_M", "profile.toml")
    assert (found.hub, found.path, found.sha256) == ("org/model:Q4_K_M", None, None)


def test_the_packaged_members_are_checked_against_their_manifest() -> None:
    profile = load("tiny")
    found = resolve("target", profile.models["target"], profile.origin)
    assert found.path is not None
    assert found.sha256 is not None
    with pytest.raises(ModelError, match="no such member"):
        resolve("target", "packaged:unheard-of", profile.origin)


def test_a_missing_file_lists_where_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_CACHE", "/the/cache")
    with pytest.raises(ModelError) as caught:
        resolve("dflash2", "nowhere.gguf", str(tmp_path / "p.toml"))
    told = str(caught.value)
    for words in (
        "'dflash2' (nowhere.gguf)",
        str(tmp_path / "nowhere.gguf"),
        "/the/cache/nowhere.gguf",
        "models.dflash2",
    ):
        assert words in told
    with pytest.raises(ModelError, match="no such file"):
        resolve("dflash2", str(tmp_path), "p.toml")  # a folder is no model


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "only the magic": lambda data: data[:4],
    "text": lambda _: b"<html>not found</html>",
    "another format": lambda data: b"PK\x03\x04" + data[4:],
    "the header only": lambda data: data[:64],
    "half": lambda data: data[: len(data) // 2],
    "all but the end": lambda data: data[:-4096],
    "too many tensors": lambda data: data[:8] + struct.pack("<Q", 2**40) + data[16:],
    "too many keys": lambda data: data[:16] + struct.pack("<Q", 2**40) + data[24:],
    "another version": lambda data: data[:4] + struct.pack("<I", 99) + data[8:],
    "nonsense inside": lambda data: data[:24] + b"\xff" * 64 + data[88:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused(model: Path, damage: str) -> None:
    model.write_bytes(DAMAGE[damage](model.read_bytes()))
    with pytest.raises(ModelError) as caught:
        resolve("target", str(model), "profile.toml")
    assert f"checking the model 'target' at {model}" in str(caught.value)
    assert "download or export the file again" in str(caught.value)
