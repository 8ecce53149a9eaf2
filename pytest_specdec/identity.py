"""What a run is, written when it begins: the build, device, models, command lines and versions behind its figures."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec import __version__
from pytest_specdec.errors import LedgerError
from pytest_specdec.measure.ledger import plain
from pytest_specdec.measure.servers import LaunchedServers
from pytest_specdec.records import Claim, Json

if TYPE_CHECKING:
    from pytest_specdec.session import Run

__all__ = ["machine_name", "write_identity"]


@functools.cache  # every speed claim asks whether its record is of this machine
def machine_name() -> str:
    """Operating system, architecture and processor."""
    return f"{platform.system()} {platform.machine()}, {_cpu_model()}"


def write_identity(run: Run, claims: Sequence[Claim]) -> None:
    """Begin the run directory, or see that a run that goes on is the one it holds. Raises LedgerError."""
    with run.ledger.locked("run"):
        if run.ledger.is_begun:
            if run.settings.resume is not None:
                _check_it_is_the_same(run, run.ledger.identity)
                return
            if os.environ.get("PYTEST_XDIST_WORKER"):
                return
            raise LedgerError(
                f"beginning a run in {run.ledger.directory}",
                "it holds another run",
                "choose another --specdec-run-dir",
            )
        run.ledger.begin(_identity(run, claims))


def _check_it_is_the_same(run: Run, before: Mapping[str, Json]) -> None:
    """Evidence of another build, profile, device or machine is no evidence for this run."""
    now = {
        "build": plain(run.servers.identity)["version"],
        "profile": run.profile.name,
        "device": run.device,
        "machine": machine_name(),
    }
    then = {**{name: before.get(name) for name in now}, "build": before.get("build", {}).get("version")}
    differing = [f"{name}: {then[name]} then, {now[name]} now" for name in now if then[name] != now[name]]
    if differing:
        raise LedgerError(
            f"going on with the run in {run.ledger.directory}",
            "\n".join(differing),
            "measure with what it was begun with, or begin a new run without --specdec-resume",
        )


def _identity(run: Run, claims: Sequence[Claim]) -> Mapping[str, Json]:
    arms = dict.fromkeys(key.arm for claim in claims if run.unavailable(claim) is None for key in claim.cells)
    launched = run.servers if isinstance(run.servers, LaunchedServers) else None
    models = dict.fromkeys(m for name in arms for m in (run.arm(name).target, run.arm(name).drafter) if m)
    content: Mapping[str, Json] = plain({
        "schema": 1,
        "run": run.ledger.directory.name,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "build": run.servers.identity,
        **({"base": run.base.identity} if run.base else {}),
        "profile": run.profile.name,
        "device": run.device,
        "hardware": run.own_device.identity,
        "machine": machine_name(),
        "settings": run.settings,
        "seed": run.seed,
        "claims": [claim.id for claim in claims],
        "arguments": {
            name: {mode: launched.arguments(run.arm(name), mode) for mode in {c.mode for c in claims}}
            for name in arms
            if launched
        },
        "models": {name: run.model_sha256(name) for name in models},
        "versions": _versions(),
    })  # fmt: skip
    return content


def _cpu_model() -> str:
    """Linux names it in /proc; elsewhere what the platform module knows."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def _versions() -> Mapping[str, str]:
    return {
        "pytest-specdec": __version__,
        "python": sys.version.split()[0],
        **{name: metadata.version(name) for name in ("pytest", "httpx", "numpy")},
    }
