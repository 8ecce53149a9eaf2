"""What cannot be judged in a run, whatever its servers answer: known before anything is measured."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_specdec.errors import SpecdecError
from pytest_specdec.measure.servers import AttachedServers
from pytest_specdec.records import Claim, Finding, Json, Reason, Status

if TYPE_CHECKING:
    from pytest_specdec.session import Run

__all__ = ["FLAGS_UNKNOWN", "record_says_nothing", "unavailable"]

FLAGS_UNKNOWN = "the flags of a server that is somebody else's are not known, so no record speaks for it"


def unavailable(run: Run, claim: Claim) -> Finding | None:
    """Why ``claim`` cannot be judged in ``run``; None where it can."""
    for name in claim.involved:
        try:
            arm = run.arm(name)
        except SpecdecError as error:
            return _not_judged(Reason.ARM_UNKNOWN, f"the arm {name}", error.why, error.remedy)
        if isinstance(run.servers, AttachedServers) and not run.servers.attached(arm):
            remedy = f"--specdec-server-url={name}=URL"
            return _not_judged(Reason.ARM_NOT_ATTACHED, f"the arm {name}", "no server was given for it", remedy)
    if claim.across_builds and run.base is None:
        return _not_judged(Reason.NO_BASE_BUILD, "two builds", "one was given", "--llama-server-base=PATH")
    for name in claim.on:
        try:
            run.workload(name)
        except SpecdecError as error:
            return _not_judged(Reason.WORKLOAD_UNKNOWN, f"the workload {name}", error.why, error.remedy)
    if claim.server_flags and isinstance(run.servers, AttachedServers):
        wanted = f"a server with {shlex.join(f'{name} {value}' for name, value in claim.server_flags.items())}"
        return _not_judged(Reason.NOT_CONTROLLED, wanted, "attached servers are as they are", "use --llama-server")
    return None


def record_says_nothing(measured: str, evidence: Mapping[str, Json]) -> Finding:
    """For a claim whose record cannot be compared with attached servers."""
    remedy = "judge a build with --llama-server, which is started with the flags of the record"
    return Finding(
        Status.NOT_JUDGED, Reason.NOT_CONTROLLED, measured, "the record's own setting", FLAGS_UNKNOWN, remedy, evidence
    )


def _not_judged(reason: Reason, wanted: str, why: str, remedy: str) -> Finding:
    return Finding(Status.NOT_JUDGED, reason, "nothing", wanted, why, remedy)
