"""The frozen values that the parts hand to each other. No behaviour beyond what follows from the values themselves.

Units are in the names: ``_ms`` milliseconds, ``_ns`` nanoseconds of ``time.perf_counter_ns``, ``_s`` seconds,
``_mib`` mebibytes, ``_nats`` natural-log units. A *cycle* is one pass of the target, a verification step or an
undrafted decode step.
"""

from __future__ import annotations

from pytest_specdec.records.build import BuildIdentity, Capabilities
from pytest_specdec.records.cell import Cell, Contrast, Estimate, MemoryUse, Pair
from pytest_specdec.records.claim import Claim, ClaimKind, Figure, Finding, Verdict
from pytest_specdec.records.generation import (
    BASE_BUILD,
    NEW_BUILD,
    Alternative,
    CellKey,
    Counters,
    FigureKind,
    Generation,
    Mode,
    StopType,
    Timings,
    Void,
)
from pytest_specdec.records.json import Json
from pytest_specdec.records.profile import Arm, Part, Profile, SpeedPlan, Thermal
from pytest_specdec.records.settings import Budget, Effort, Inconclusive, Settings, UpdateBaseline
from pytest_specdec.records.status import Reason, Status
from pytest_specdec.records.workload import Prompt, Workload

__all__ = [
    "BASE_BUILD",
    "NEW_BUILD",
    "Alternative",
    "Arm",
    "Budget",
    "BuildIdentity",
    "Capabilities",
    "Cell",
    "CellKey",
    "Claim",
    "ClaimKind",
    "Contrast",
    "Counters",
    "Effort",
    "Estimate",
    "Figure",
    "FigureKind",
    "Finding",
    "Generation",
    "Inconclusive",
    "Json",
    "MemoryUse",
    "Mode",
    "Pair",
    "Part",
    "Profile",
    "Prompt",
    "Reason",
    "Settings",
    "SpeedPlan",
    "Status",
    "StopType",
    "Thermal",
    "Timings",
    "UpdateBaseline",
    "Verdict",
    "Void",
    "Workload",
]
