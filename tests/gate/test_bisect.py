"""A real ``git bisect run`` over a repository whose commits are servers, one of which begins to accept any draft."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What a build would be: a program of llama-server's flags. Both go on to the real server of the wheel.
GOOD = f'#!/bin/sh\nexec {sys.executable} -m pytest_specdec.server.embedded "$@"\n'
LOSSY = f"""#!/bin/sh
case " $* " in *" --spec-type "*) set -- "$@" --spec-synth-len 2 ;; esac
exec {sys.executable} -m pytest_specdec.server.embedded "$@"
"""
# A commit in between whose build cannot run the arm: neither good nor bad.
BROKEN = f"""#!/bin/sh
case " $* " in *" --spec-type "*) echo "unknown model architecture: dflash" >&2; exit 1 ;; esac
exec {sys.executable} -m pytest_specdec.server.embedded "$@"
"""
COMMITS = (GOOD, GOOD, BROKEN, GOOD, LOSSY, LOSSY, LOSSY)
CULPRIT = 4

SUITE = """
import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.judge import Judge


@pytest.mark.claim("same", source="here", kind="exact", arms=["base", "dflash2"], on="width")
def test_same(cells: CellMap, claim: Judge) -> None:
    differing = [a.prompt_id for a, b in zip(*(cells[arm].generations for arm in cells)) if a.tokens != b.tokens]
    claim.holds(not differing, measured=f"{len(differing)} differ", expected="the same tokens")
"""


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=_environment()).stdout


def _environment() -> dict[str, str]:
    """Without a configuration or a repository of the one who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "SPECDEC_"))}
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Its commits are servers; the suite that judges them lies outside."""
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "test_same.py").write_text(SUITE, "utf-8")
    (tmp_path / "suite" / "pytest.ini").write_text("[pytest]\n", "utf-8")
    folder = tmp_path / "servers"
    folder.mkdir()
    _git(folder, "init", "--quiet", "--initial-branch=main")
    for number, text in enumerate(COMMITS):
        server = folder / "llama-server"
        server.write_text(text + f"# {number}\n", "utf-8")
        server.chmod(0o755)
        _git(folder, "add", "llama-server")
        _git(folder, "commit", "--quiet", "--message", f"commit {number}")
    return folder


def _bisect(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    suite = str(repository.parent / "suite" / "test_same.py")
    command = [
        "git", "bisect", "run", sys.executable, "-m", "pytest_specdec", "bisect", "--", suite, "-p", "no:cacheprovider",
        "--llama-server=./llama-server", *arguments,
    ]  # fmt: skip
    return subprocess.run(
        command, cwd=repository, capture_output=True, text=True, check=False, env=_environment(), timeout=300
    )


def test_the_culprit_is_found(repository: Path) -> None:
    shas = _git(repository, "rev-list", "--reverse", "main").split()
    _git(repository, "bisect", "start", shas[-1], shas[0])
    done = _bisect(repository)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{shas[CULPRIT]} is the first bad commit" in done.stdout + done.stderr
    assert "bisect: 1: 1 claim failed: same (assertion)" in done.stderr


def test_a_typing_error_stops_the_bisection_at_once(repository: Path) -> None:
    shas = _git(repository, "rev-list", "--reverse", "main").split()
    _git(repository, "bisect", "start", shas[-1], shas[0])
    done = _bisect(repository, "--specdec-profile=tinyy")
    assert done.returncode != 0
    assert "first bad commit" not in done.stdout
    assert "did you mean 'tiny'" in done.stdout + done.stderr
