"""What several test modules need: small profiles, builds with a fault, values made by hand, processes left behind."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from pytest_specdec.records import CellKey, Counters, Generation, Mode, StopType, Timings

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 120.0  # for whatever a busy machine makes slow

# What a developer may have set must not reach the runs under test, and other plugins only cost time there. Where CI is
# set pytest tells every failure whole a second time.
SCRUBBED = (
    "BUILD_NUMBER", "CI", "LLAMA_SERVER", "LLAMA_API_KEY", "LLAMA_CACHE", "PYTEST_ADDOPTS", "PYTEST_XDIST_TESTRUNUID",
    "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT",
)  # fmt: skip
SETTINGS = {
    "SPECDEC_LLAMA_SERVER": "embedded",
    "SPECDEC_HISTORY": os.devnull,  # these runs are nobody's history
    "PYTEST_ADDOPTS": "-p no:anyio -p no:hypothesispytest -p no:benchmark -p no:cacheprovider",
}

PROFILE = """
extends = "tiny"
name = "small"
about = "The tiny family on a few tokens, for the project's own tests."
judged_arms = ["dflash2"]

[workloads.mixed]
prompts = {prompts}
n_predict = {n_predict}
"""

UNTIMED_SPEED = """
extends = "tiny"
name = "small"
about = "Speed panels of a target that costs nothing, whoever else is on the machine, for the project's own tests."

[speed]
models = {{ target = "packaged:target" }}
foreign_share = {foreign_share}
block_prompts = 3
intraclass = 0.0

[server.speed]
threads = 1
threads-batch = 1

[server.speed_drafted]
threads-draft = 1
threads-batch-draft = 1

[workloads.code]
prompts = {prompts}
n_predict = {n_predict}
forced = true
"""


def clean_environment(**more: str) -> dict[str, str]:
    """The environment of a run under test."""
    kept = {
        name: value for name, value in os.environ.items() if name not in SCRUBBED and not name.startswith("SPECDEC_")
    }
    return {**kept, **SETTINGS, **more}


def small_profile(directory: Path, more: str = "", *, prompts: int = 2, n_predict: int = 24) -> Path:
    """A profile file with few prompts; ``more`` is TOML that is appended."""
    path = directory / "small.toml"
    path.write_text(PROFILE.format(prompts=prompts, n_predict=n_predict) + textwrap.dedent(more), "utf-8")
    return path


def speed_profile(
    directory: Path, more: str = "", *, prompts: int = 6, n_predict: int = 20, foreign_share: float = 1.0
) -> Path:
    """A profile file for panels whose figures nobody looks at, with that many prompts of code.

    ``foreign_share``: of the cores, what others may take; whatever they like unless a test is about that.
    """
    path = directory / "small.toml"
    text = UNTIMED_SPEED.format(prompts=prompts, n_predict=n_predict, foreign_share=foreign_share)
    path.write_text(text + textwrap.dedent(more), "utf-8")
    return path


def new_run(directory: Path) -> Path:
    """A run directory whose name, which is the run's id, no other run has."""
    return directory / f"run-{secrets.token_hex(6)}"


def gate(*arguments: str | Path, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, as a user starts it in a checkout."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *map(str, arguments)],
        cwd=cwd, env=clean_environment(**environment), capture_output=True, text=True, timeout=3 * PATIENCE_S,
        check=False,
    )  # fmt: skip


def results_of(run: Path) -> dict[str, Any]:
    """The verdicts of a run by claim, from its results file."""
    document: dict[str, Any] = json.loads((run / "results.json").read_text("utf-8"))
    return {verdict["claim"]: verdict for verdict in document["verdicts"]}


def run_of(process: psutil.Process) -> str:
    """The id of the run that started it."""
    return process.environ().get("SPECDEC_RUN_ID", "").partition(":")[0]


def servers_of(run: Path) -> list[psutil.Process]:
    """Processes that were started for that run and still live."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and run_of(process) == run.name:
                found.append(process)
        except psutil.Error:
            continue
    return found


def eventually(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> bool:
    """Whether the condition comes true before patience ends."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def executable(path: Path, program: str) -> Path:
    """A Python program as an executable file."""
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(program)}", "utf-8")
    path.chmod(0o755)
    return path


def build_with_fault(directory: Path, fault: str) -> Path:
    """A llama-server, the embedded one, in which ``fault`` runs first with the command line in ``arguments``.

    Every question for the version or the flags is answered as usual.
    """
    program = """
import os, sys
arguments = sys.argv[1:]
embedded = [sys.executable, "-m", "pytest_specdec.server.embedded"]
if arguments not in (["--version"], ["--help"]):
    pass
{fault}
os.execv(sys.executable, [*embedded, *arguments])
"""
    return executable(directory / "llama-server", program.format(fault=textwrap.indent(textwrap.dedent(fault), "    ")))


def generation(
    tokens: Sequence[int] = (1, 2, 3, 4),
    *,
    cell: CellKey | None = None,
    prompt_id: str = "p1",
    drafted: int = 0,
    accepted: int = 0,
    drafts: int = 0,
    **more: Any,
) -> Generation:
    """A generation with one token per event."""
    made = Generation(
        cell=cell or CellKey(Mode.EXACT, "mixed", "dflash2"),
        prompt_id=prompt_id,
        block=0,
        ordinal=0,
        tokens=tuple(tokens),
        stop_type=StopType.LIMIT,
        truncated=False,
        timings=Timings(0, 5, 1.0, len(tokens), 2.0, drafted, accepted),
        counters=Counters(drafts, drafted, accepted, len(tokens), ()),
        started_ns=0,
        ended_ns=10,
        event_ns=tuple(range(len(tokens))),
        event_tokens=(1,) * len(tokens),
        pieces=tuple(f"<{token}>" for token in tokens),
    )
    return replace(made, **more)


def lines_of(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a JSON Lines file; every line must be one."""
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)
