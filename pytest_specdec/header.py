"""The lines above the tests: which build, why that one, and what this run cannot compare with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_specdec.records import UpdateBaseline

if TYPE_CHECKING:
    from pytest_specdec.session import Run

__all__ = ["header_lines"]


def header_lines(run: Run) -> list[str]:
    """What a reader needs to know before the first verdict."""
    build, settings = run.servers.identity, run.settings
    lines = [f"build {build.label} ({build.location}; {build.why})"]
    if run.base is not None:
        lines.append(f"compared with {run.base.identity.label} ({run.base.identity.location})")
    where = os.path.relpath(run.ledger.directory)
    lines.append(f"profile {run.profile.name}, device {run.baselines.device}, evidence in {where}")
    if run.baselines.missing and not settings.calibrate and settings.update_baseline is UpdateBaseline.OFF:
        lines.append(f"{run.baselines.missing}: recorded claims are not judged")
    return [f"specdec: {line}" for line in lines]
