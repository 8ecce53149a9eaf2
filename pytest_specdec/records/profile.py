"""What is run: models, arms, and how they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_specdec.records.json import Json

__all__ = ["Arm", "Part", "Profile", "SpeedPlan", "Thermal"]


@dataclass(frozen=True, slots=True)
class Part:
    """A fragment that an arm takes up by ``+name``: a lookup, or a change of flags."""

    name: str
    families: tuple[str, ...] = ()
    spec_types: tuple[str, ...] = ()
    flags: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arm:
    """A named speculative configuration, complete: nothing that matters is left to a default of the build."""

    name: str
    families: tuple[str, ...] = ()
    spec_types: tuple[str, ...] = ()
    target: str = "target"
    drafter: str | None = None
    n_max: int | None = None
    block_size: int | None = None
    flags: Mapping[str, Json] = field(default_factory=dict)

    @property
    def drafted(self) -> bool:
        """Whether this arm speculates at all."""
        return bool(self.spec_types)

    @property
    def looks_up(self) -> bool:
        """Whether a lookup drafter takes part: then the draft width is not the block drafter's alone."""
        return any(name.startswith("ngram") for name in self.spec_types)


@dataclass(frozen=True, slots=True)
class SpeedPlan:
    """How speed panels are laid out, and what the plan reckons with.

    ``models`` replace models of the same name in speed panels. ``claims``: the statistical claims of the profile, among
    which alpha is divided, whatever is selected. ``sigma``: the spread of a pair, in natural-log units, where neither
    an entry nor the workload says, and ``intraclass`` the correlation of the pairs of one block, which share their
    servers. ``sessions``: of a calibration. ``warm_up_tokens``: of a server's first reply, which is discarded.
    ``foreign_share``: of the cores, what others may take before a figure is void. The rest are estimates that decide
    nothing.
    """

    models: Mapping[str, str] = field(default_factory=dict)
    block_prompts: int = 4
    claims: int = 40
    sigma: float = 0.05
    intraclass: float = 0.05
    sessions: int = 5
    warm_up_tokens: int = 8
    foreign_share: float = 0.05
    server_start_s: float = 2.0
    cooldown_s: float = 0.0
    decode_tokens_per_s: float = 60.0
    speed_up: float = 2.0
    prefill_tokens_per_s: float = 2000.0


@dataclass(frozen=True, slots=True)
class Thermal:
    """How warm a device may be when a server of a speed panel starts, in °C; None where any warmth will do.

    ``context_start_c`` stands for ``arm_start_c`` on workloads at depth, for all their arms alike. After a slowdown
    nothing starts for ``throttle_pause_s``.
    """

    arm_start_c: float | None = None
    context_start_c: float | None = None
    throttle_pause_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Profile:
    """What is run: models, flags, arms and the sizes of the workloads.

    ``own_flags`` are those that a user's file sets: a build may be too old for a flag of a built-in profile, but one
    that a file asks for is meant.
    """

    name: str
    about: str
    origin: str
    models: Mapping[str, str]
    server_flags: Mapping[str, Json]
    exact_flags: Mapping[str, Json]
    exact_drafted_flags: Mapping[str, Json]
    speed_flags: Mapping[str, Json]
    speed_drafted_flags: Mapping[str, Json]
    arms: Mapping[str, Arm]
    parts: Mapping[str, Part]
    judged_arms: tuple[str, ...]
    workloads: Mapping[str, Mapping[str, Json]]
    ready_timeout_s: float
    stall_timeout_s: float
    stop_timeout_s: float
    speed: SpeedPlan = field(default_factory=SpeedPlan)
    thermal: Thermal = field(default_factory=Thermal)
    prompt_format: str = "{text}"
    own_flags: frozenset[str] = frozenset()
