"""By what a build is known again."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from pytest_specdec.errors import BuildError
from pytest_specdec.records import BuildIdentity, Capabilities
from pytest_specdec.server.build import Build, locate
from pytest_specdec.server.contents import contents_of


def build_at(path: Path) -> Build:
    identity = BuildIdentity("path", str(path), None, None, "version: 1 (1a2b3c4)", "asked for by --llama-server")
    return Build((str(path),), identity, Capabilities(frozenset()))


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """A build as cmake leaves it, with the libraries under several names and files that are none of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (
        "llama-server",
        "llama-cli",
        "libllama.so.0.0.11549",
        "libggml-cpu-haswell.so",
        "libcurl.so",
        "ggml.md",
    ):
        (folder / name).write_text(name, "utf-8")
    (folder / "libllama.so.0").symlink_to("libllama.so.0.0.11549")
    (folder / "libllama.so").symlink_to("libllama.so.0")
    return folder / "llama-server"


def test_the_server_and_its_libraries_are_hashed_each_once(server: Path) -> None:
    assert set(contents_of(build_at(server))) == {"llama-server", "libllama.so", "libggml-cpu-haswell.so"}


@pytest.mark.parametrize("name", ["llama-server", "libllama.so.0.0.11549", "libggml-cpu-haswell.so"])
def test_a_file_that_was_made_anew_is_seen(server: Path, name: str) -> None:
    before = contents_of(build_at(server))
    (server.parent / name).write_text("another", "utf-8")
    after = contents_of(build_at(server))
    assert [known.partition(".so")[0] for known in before if before[known] != after[known]] == [
        name.partition(".so")[0]
    ]


def test_neither_its_place_nor_its_name_nor_a_version_in_the_name_of_a_library_matters(
    server: Path, tmp_path: Path
) -> None:
    before = contents_of(build_at(server))
    (server.parent / "libllama.so.0.0.11549").rename(server.parent / "libllama.so.0.0.1")
    (server.parent / "libllama.so.0").unlink()
    (server.parent / "libllama.so.0").symlink_to("libllama.so.0.0.1")
    server.rename(server.with_name("llama-server-patched"))
    (tmp_path / "bin").rename(tmp_path / "elsewhere")
    assert contents_of(build_at(tmp_path / "elsewhere" / "llama-server-patched")) == before


def test_an_installation_has_its_libraries_in_lib(server: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (server.parent / "libllama.so").rename(tmp_path / "lib" / "libmtmd.dylib")
    (tmp_path / "lib" / "libmtmd.dylib").unlink()
    (tmp_path / "lib" / "libmtmd.dylib").write_text("mtmd", "utf-8")
    assert "libmtmd.dylib" in contents_of(build_at(server))


def test_a_link_on_the_path_is_followed(server: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "llama-server").symlink_to(server)
    assert contents_of(build_at(tmp_path / "links" / "llama-server")) == contents_of(build_at(server))


def test_the_embedded_server_is_its_wheel() -> None:
    assert contents_of(locate("embedded", {})) == {"xllamacpp": importlib.metadata.version("xllamacpp")}


def test_of_one_that_only_a_launcher_sees_nothing_is_known() -> None:
    assert contents_of(build_at(Path("/app/llama-server-in-a-container"))) == {}


def test_one_that_cannot_be_read_is_refused(server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_arguments: object) -> None:
        raise PermissionError("Permission denied")

    monkeypatch.setattr(Path, "open", unreadable)
    with pytest.raises(BuildError, match="make it readable"):
        contents_of(build_at(server))
