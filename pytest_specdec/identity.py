"""What a run is, written when it begins: the build, device, models, command lines and versions behind its figures."""

from __future__ import annotations

import contextlib
import datetime
import functools
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec import __version__
from pytest_specdec.conditions import conditions_of, differences, joined
from pytest_specdec.errors import LedgerError
from pytest_specdec.measure.ledger import plain
from pytest_specdec.measure.servers import LaunchedServers
from pytest_specdec.records import Claim, Json

if TYPE_CHECKING:
    from pytest_specdec.session import Run

__all__ = ["machine_name", "refuse_no_run", "write_identity"]

_MOST_TOLD = 20  # differences: another profile may differ in everything


@functools.cache  # every speed claim asks whether its record is of this machine
def machine_name() -> str:
    """Operating system, architecture and processor."""
    return f"{platform.system()} {platform.machine()}, {_cpu_model()}"


def refuse_no_run(directory: Path) -> None:
    """Before anything is written there: a run is gone on with, never begun, by --specdec-resume. Raises LedgerError."""
    if not (directory / "run.json").is_file():
        raise LedgerError(
            f"going on with the run in {directory} (--specdec-resume)",
            f"there is no run in {directory}: it has no run.json",
            "name the directory of a run, such as one in .specdec/runs, or begin a new run without --specdec-resume",
        )


def write_identity(run: Run, claims: Sequence[Claim], session: str) -> None:
    """Begin the run directory, or see that a run that goes on is measured as the one it holds. Raises LedgerError.

    ``session``: of pytest-xdist, whose workers share the directory; empty without it. The first of them to come here
    answers for all.
    """
    with run.ledger.locked("run"):
        if not run.ledger.is_begun:
            run.ledger.begin({**_identity(run, claims), "session": session})
            return
        before = run.ledger.identity
        if session and before.get("session") == session:
            return
        if run.settings.resume is None:
            raise LedgerError(
                f"beginning a run in {run.ledger.directory}",
                "it holds another run",
                "choose another --specdec-run-dir, or go on with that run: --specdec-resume",
            )
        now = _identity(run, claims)
        _refuse_other_conditions(run, before, now)
        run.ledger.begin({**_gone_on_with(before, now), "session": session})
        run.ledger.reopen_void()


def _refuse_other_conditions(run: Run, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Evidence of another build, model, flag, profile, device or machine is no evidence for this run."""
    if "conditions" in before:
        differing = list(differences(before["conditions"], now["conditions"]))
    else:
        differing = ["it does not say what it was measured under: another version of pytest-specdec has begun it"]
    if differing:
        more = [f"and {len(differing) - _MOST_TOLD} more"] if len(differing) > _MOST_TOLD else []
        raise LedgerError(
            f"going on with the run in {run.ledger.directory}",
            "\n".join([*differing[:_MOST_TOLD], *more]),
            "measure with what it was begun with, or begin a new run without --specdec-resume",
        )


def _gone_on_with(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The run as it was begun; arms, models and claims that come to it are added, for whoever goes on after this."""
    return {
        **now,
        **before,
        "claims": list(dict.fromkeys((*before["claims"], *now["claims"]))),
        **{name: joined(before[name], now[name]) for name in ("arguments", "conditions")},
    }


def _identity(run: Run, claims: Sequence[Claim]) -> Mapping[str, Json]:
    arms = dict.fromkeys(key.arm for claim in claims if run.unavailable(claim) is None for key in claim.cells)
    launched = run.servers if isinstance(run.servers, LaunchedServers) else None
    content: Mapping[str, Json] = plain({
        "schema": 1,
        "run": run.ledger.directory.name,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "build": run.servers.identity,
        **({"base": run.base.identity} if run.base else {}),
        "profile": run.profile.name,
        "device": run.device,
        "without_records": "" if run.settings.writes_baselines else run.baselines.missing,
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
        "conditions": conditions_of(run, claims, machine_name()),
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
