"""The lines above the tests: which build, why that one, and what this run cannot compare with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_specdec.records import BuildIdentity

if TYPE_CHECKING:
    from pytest_specdec.measure.ledger import Ledger

__all__ = ["header_lines"]


def header_lines(ledger: Ledger) -> list[str]:
    """What a reader needs to know of a run that has begun before its first verdict. Raises LedgerError."""
    identity = ledger.identity
    build = BuildIdentity(**identity["build"])
    lines = [f"build {build.label} ({build.location}; {build.why})"]
    if identity.get("base"):
        base = BuildIdentity(**identity["base"])
        lines.append(f"compared with {base.label} ({base.location})")
    where = os.path.relpath(ledger.directory)
    lines.append(f"profile {identity['profile']}, device {identity['device']}, evidence in {where}")
    if identity.get("without_records"):
        lines.append(f"{identity['without_records']}: recorded claims are not judged")
    return [f"specdec: {line}" for line in lines]
