"""Build against build on real servers: alike, lossy in speculation, and without the arm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gate.test_bisect import BROKEN, LOSSY

SUITE = Path(__file__).parents[2] / "suites" / "test_parity.py"
PROFILE = """
name = "two-builds"
about = "a few prompts of one arm"
extends = "tiny"
judged_arms = ["dflash2"]

[workloads.mixed]
prompts = 4
n_predict = 48
"""


def _judged(folder: Path, new: str, base: str | None) -> dict[str, Any]:
    """The results of a run, each verdict by its claim."""
    for name in (new, base):
        if name is not None and name.startswith("#!"):
            server = folder / ("new" if name is new else "base")
            server.write_text(name, "utf-8")
            server.chmod(0o755)
    (folder / "profile.toml").write_text(PROFILE, "utf-8")
    servers = [f"--llama-server={_place(folder, new, 'new')}"]
    if base is not None:
        servers.append(f"--llama-server-base={_place(folder, base, 'base')}")
    command = [
        sys.executable, "-m", "pytest", str(SUITE), "-p", "no:cacheprovider", f"--specdec-run-dir={folder / 'run'}",
        f"--specdec-profile={folder / 'profile.toml'}", *servers,
    ]  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPECDEC_")}
    done = subprocess.run(command, cwd=SUITE.parents[1], env=kept, capture_output=True, text=True, check=False)
    assert (folder / "run" / "results.json").exists(), done.stdout + done.stderr
    document: dict[str, Any] = json.loads((folder / "run" / "results.json").read_text("utf-8"))
    return document | {"by_claim": {verdict["claim"]: verdict for verdict in document["verdicts"]}}


def _place(folder: Path, server: str, role: str) -> str:
    return str(folder / role) if server.startswith("#!") else server


def test_a_build_is_like_itself(tmp_path: Path) -> None:
    results = _judged(tmp_path, "embedded", "embedded")
    assert results["exit_status"] == 0
    assert {verdict["status"] for verdict in results["verdicts"]} == {"pass"}
    assert results["base"]["source"] == "embedded"


def test_a_loss_is_laid_at_the_door_of_speculation(tmp_path: Path) -> None:
    verdicts = _judged(tmp_path, LOSSY, "embedded")["by_claim"]
    assert verdicts["parity.tokens[base]"]["status"] == "pass"
    assert verdicts["parity.tokens[dflash2]"]["reason"] == "tokens_differ"
    assert verdicts["parity.tokens[dflash2]"]["detail"].startswith("cause: speculative")
    counters = verdicts["parity.counters[dflash2]"]
    assert counters["reason"] == "acceptance_moved"
    assert counters["evidence"]["cut"] > 0
    assert counters["evidence"]["same_text"] == counters["evidence"]["prompts"]


@pytest.mark.parametrize(
    ("new", "base", "reason"), [(BROKEN, "embedded", "arm_lost"), ("embedded", BROKEN, "arm_unavailable")]
)
def test_an_arm_is_lost_only_where_the_base_build_has_it(new: str, base: str, reason: str, tmp_path: Path) -> None:
    verdicts = _judged(tmp_path, new, base)["by_claim"]
    assert verdicts["parity.tokens[base]"]["status"] == "pass"
    assert verdicts["parity.tokens[dflash2]"]["reason"] == reason


def test_without_a_base_build_nothing_is_judged(tmp_path: Path) -> None:
    results = _judged(tmp_path, "embedded", None)
    assert {verdict["reason"] for verdict in results["verdicts"]} == {"no_base_build"}
    assert results["exit_status"] == 1
