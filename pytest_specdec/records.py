"""The frozen values that the parts hand to each other. No behaviour beyond what follows from the values themselves.

Units are in the names: ``_ms`` milliseconds, ``_ns`` nanoseconds of ``time.perf_counter_ns``, ``_s`` seconds,
``_mib`` mebibytes, ``_nats`` natural-log units. A *cycle* is one pass of the target, a verification step or an
undrafted decode step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

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

Json = Any  # a value that json.loads can return

NEW_BUILD, BASE_BUILD = "new", "base"  # the build under test, and the one that it is compared with


class Status(StrEnum):
    """What a verdict says."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    VOID = "void"
    NOT_JUDGED = "not judged"


class ClaimKind(StrEnum):
    """What sort of assertion a claim is; also the name of its selection marker."""

    EXACT = "exact"
    LOSSLESS = "lossless"
    SPEED = "speed"
    MEMORY = "memory"


class FigureKind(StrEnum):
    """What a guard can spoil."""

    SPEED = "speed"
    ACCEPTANCE = "acceptance"
    LOSSLESS = "lossless"
    MEMORY = "memory"


class Figure(StrEnum):
    """What a contrast compares. Ratios are candidate over reference of a rate, so above 1 is better for all of them."""

    THROUGHPUT = "throughput"  # decoded tokens per second, by the server's clock
    CYCLES_PER_S = "cycles_per_s"  # passes of the target per second
    FIRST_TOKEN = "first_token"  # 1 / time to first token, by the client's clock
    TOKEN_GAP = "token_gap"  # 1 / mean inter-token latency, by the client's clock
    PREFILL = "prefill"  # prompt tokens per second, by the server's clock


class Reason(StrEnum):
    """Why a verdict is what it is. The codes are stable: scripts and bisect read them."""

    HELD = "held"
    KNOWN_DEVIATION = "known_deviation"
    DEVIATION_GONE = "deviation_gone"
    # fail
    TOKENS_DIFFER = "tokens_differ"
    WIDTH_EXCEEDED = "width_exceeded"
    WIDTH_DIFFERS = "width_differs"
    CLAMP_UNREPORTED = "clamp_unreported"
    FLAG_IGNORED = "flag_ignored"
    BEHAVIOUR_CHANGED = "behaviour_changed"
    COUNTERS_DISAGREE = "counters_disagree"
    DRAFTER_IDLE = "drafter_idle"
    ACCEPTANCE_MOVED = "acceptance_moved"
    RECORD_MOVED = "record_moved"
    SLOWER = "slower"
    MEMORY_GREW = "memory_grew"
    BELOW_FLOOR = "below_floor"
    ARM_LOST = "arm_lost"
    SERVER_DIED = "server_died"
    REQUEST_REFUSED = "request_refused"
    LENGTH_DIFFERS = "length_differs"
    LOGPROBS_DIFFER = "logprobs_differ"
    LOGPROBS_MISSING = "logprobs_missing"
    DISTRIBUTION_DIFFERS = "distribution_differs"
    ASSERTION = "assertion"
    NOTHING_MEASURED = "nothing_measured"
    RECORD_MISSING = "record_missing"
    # inconclusive
    NOT_ENOUGH_EVIDENCE = "not_enough_evidence"
    NO_POWER = "no_power"
    # void
    SERVER_FAILED = "server_failed"
    SERVER_STALLED = "server_stalled"
    STREAM_BROKEN = "stream_broken"
    DEVICE_FAILED = "device_failed"
    METRICS_MISSING = "metrics_missing"
    ARITHMETIC = "arithmetic"
    DEGENERATE_LOOP = "degenerate_loop"
    EARLY_STOP = "early_stop"
    TOOL_CALL = "tool_call"
    SHORT_SESSION = "short_session"
    COUNTERS_INCONSISTENT = "counters_inconsistent"
    SYNTHETIC_ACCEPTANCE = "synthetic_acceptance"
    CACHE_HIT = "cache_hit"
    TRUNCATED = "truncated"
    LENGTH_MISMATCH = "length_mismatch"
    THROTTLED = "throttled"
    HOT_START = "hot_start"
    DEVICE_SHARED = "device_shared"
    CLOCK_DRIFT = "clock_drift"
    ORDER_EFFECT = "order_effect"
    AUTOCORRELATED = "autocorrelated"
    NOISY_SESSION = "noisy_session"
    SERVER_RESTARTED = "server_restarted"
    BASELINE_MISMATCH = "baseline_mismatch"
    # not judged
    ARM_UNAVAILABLE = "arm_unavailable"
    ARM_UNKNOWN = "arm_unknown"
    ARM_NOT_ATTACHED = "arm_not_attached"
    NO_RECORD = "no_record"
    WORKLOAD_UNKNOWN = "workload_unknown"
    NOT_CONTROLLED = "not_controlled"
    NO_BASE_BUILD = "no_base_build"
    REPORTED = "reported"


class Effort(StrEnum):
    """How long property tests look for a counterexample."""

    SECONDS = "seconds"
    MINUTES = "minutes"
    NIGHTLY = "nightly"


class Mode(StrEnum):
    """How a panel is measured: exact claims on one thread, speed claims on the cores, alone, under the device lock."""

    EXACT = "exact"
    SPEED = "speed"


class Inconclusive(StrEnum):
    """What pytest makes of an inconclusive verdict."""

    FAIL = "fail"
    SKIP = "skip"


class UpdateBaseline(StrEnum):
    """What a run may write into the baseline."""

    OFF = "off"
    ALL = "all"
    NEW = "new"


class StopType(StrEnum):
    """Why a generation ended, in the server's own words."""

    EOS = "eos"
    LIMIT = "limit"
    WORD = "word"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a run may spend: pairs per contrast, or seconds of the device in all."""

    pairs: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for, parsed and checked once. ``margin`` is None where the default or the entry decides."""

    llama_server: str | None = None
    llama_server_base: str | None = None
    server_urls: tuple[tuple[str, str], ...] = ()
    launcher: tuple[str, ...] = ()
    profile: str = "tiny"
    arm_args: tuple[str, ...] = ()
    baselines: Path | None = None
    update_baseline: UpdateBaseline = UpdateBaseline.OFF
    accept_regression: str | None = None
    inconclusive: Inconclusive = Inconclusive.FAIL
    run_dir: Path | None = None
    report: Path | None = None
    history: Path | None = None
    quiet: bool = False
    property_effort: Effort = Effort.SECONDS
    margin: float | None = None
    alpha: float = 0.01
    beta: float = 0.05
    budget: Budget = Budget()
    seed: int | None = None
    plan: bool = False
    resume: Path | None = None
    calibrate: bool = False
    device: str | None = None
    servers_at_once: int | None = None
    lock_dir: Path | None = None
    lock_timeout_s: float = 3600.0
    cooldown_timeout_s: float = 300.0


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
    """What is run: models, flags, arms and the sizes of the workloads."""

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


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a workload. ``group``: the part of the workload that it belongs to, empty where it has no parts."""

    id: str
    text: str
    group: str = ""
    request: Mapping[str, Json] = field(default_factory=dict)  # what it asks for beyond the workload's request


@dataclass(frozen=True, slots=True)
class Workload:
    """A named, ordered set of prompts with the parameters of their requests.

    ``forced_tokens``: the length of every reply where it is fixed. ``warm``: the prompt cache may answer.
    ``conversation``: each prompt is a turn that follows on what was said before, ``turn_end`` stands between a reply
    and the next turn. ``sampled``: replies are drawn as the server does by default; a conversation then follows on what
    the arm itself has said. ``block_prompts``: of a speed panel.
    ``sigma``: spread of a pair, natural-log units; ``intraclass``: correlation of the pairs of one block. None where
    the profile's count.
    """

    name: str
    prompts: tuple[Prompt, ...]
    request: Mapping[str, Json]
    sha256: str
    forced_tokens: int | None = None
    warm: bool = False
    conversation: bool = False
    turn_end: str = ""
    sampled: bool = False
    block_prompts: int | None = None
    sigma: float | None = None
    intraclass: float | None = None


@dataclass(frozen=True, slots=True)
class BuildIdentity:
    """Which llama-server answers."""

    source: str  # embedded, path, environment, PATH, package, url
    location: str
    number: int | None
    commit: str | None
    version: str  # the words of --version or of the package
    why: str  # why this one was taken

    @property
    def label(self) -> str:
        """A short name for screens and files."""
        return f"b{self.number}" if self.number is not None else self.version


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which flags a build lists in its ``--help``."""

    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Timings:
    """The server's own account of one request."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    predicted_n: int
    predicted_ms: float
    draft_n: int
    draft_n_accepted: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What ``/metrics`` counted between the end of the request before and the end of this one."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    predicted_tokens: int
    accepted_per_position: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """The second choice of the target at one position, from a run without a drafter.

    ``gap_nats`` is the log probability of the chosen token less that of ``token``.
    """

    token: int
    gap_nats: float


@dataclass(frozen=True, slots=True)
class Void:
    """Why some figures of a generation or a cell decide nothing."""

    reason: Reason
    figures: frozenset[FigureKind]
    detail: str


@dataclass(frozen=True, slots=True, order=True)
class CellKey:
    """Build role × arm × workload, in one mode."""

    mode: Mode
    workload: str
    arm: str
    build: str = NEW_BUILD

    @property
    def panel(self) -> tuple[Mode, str]:
        """The panel that this cell belongs to."""
        return self.mode, self.workload

    def __str__(self) -> str:
        return f"{self.mode}/{self.workload}/{self.arm}" + ("" if self.build == NEW_BUILD else f"/{self.build}")


@dataclass(frozen=True, slots=True)
class Generation:
    """One request and everything observed of it.

    ``tokens`` are all returned token ids, the final end-of-text included. ``event_ns``, ``event_tokens`` and ``pieces``
    are the client's stamps of the stream's events, how many tokens each carried, and its text. ``alternatives`` has one
    entry per token where the request asked for them, else it is empty. ``counters`` is None where other requests were
    in flight. ``device`` is what the device said meanwhile, empty where nobody asked it.
    """

    cell: CellKey
    prompt_id: str
    block: int
    ordinal: int
    tokens: tuple[int, ...]
    stop_type: StopType
    truncated: bool
    timings: Timings
    counters: Counters | None
    started_ns: int
    ended_ns: int
    event_ns: tuple[int, ...]
    event_tokens: tuple[int, ...]
    pieces: tuple[str, ...]
    alternatives: tuple[Alternative, ...] = ()
    voids: tuple[Void, ...] = ()
    device: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def void_for(self, figure: FigureKind) -> Void | None:
        """The first guard that spoils this kind of figure."""
        return next((void for void in self.voids if figure in void.figures), None)

    @property
    def counted(self) -> Counters:
        """The counters. Raises ValueError where they were not read."""
        if self.counters is None:
            raise ValueError(f"{self.prompt_id}: other requests were in flight, so its counters were not read")
        return self.counters

    @property
    def complete(self) -> bool:
        """Whether every token was returned: a stream leaves out those that end inside a character."""
        return len(self.tokens) == self.timings.predicted_n

    @property
    def text(self) -> str:
        """The whole reply."""
        return "".join(self.pieces)

    def text_before(self, position: int) -> str:
        """The text of the tokens before ``position``."""
        seen = 0
        for number, count in enumerate(self.event_tokens):
            if seen + count > position:
                return "".join(self.pieces[:number])
            seen += count
        return self.text

    @property
    def cycles(self) -> int:
        """Passes of the target after prefill: the first token comes from prefill, an accepted one costs no pass."""
        return self.timings.predicted_n - 1 - self.timings.draft_n_accepted


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a server takes: memory of the device where that is a GPU, resident memory where it is the CPU.

    ``loaded_mib`` when it was ready, ``peak_mib`` the most until its last request ended.
    """

    loaded_mib: float
    peak_mib: float


@dataclass(frozen=True, slots=True)
class Cell:
    """All generations of one build, arm and workload.

    ``log`` is the server's, None when it is elsewhere; so is ``memory``, and where the device does not tell it.
    """

    key: CellKey
    generations: tuple[Generation, ...]
    log: str | None = None
    voids: tuple[Void, ...] = ()
    memory: MemoryUse | None = None

    def void_for(self, figure: FigureKind) -> Void | None:
        """The first guard that spoils this kind of figure."""
        return next((void for void in self.voids if figure in void.figures), None)

    @property
    def tokens(self) -> int:
        """Tokens predicted after each generation's first, which prefill gives."""
        return sum(max(0, g.timings.predicted_n - 1) for g in self.generations)

    def valid_for(self, figure: FigureKind) -> list[Generation]:
        """Its generations that no guard spoils for this kind of figure."""
        return [g for g in self.generations if g.void_for(figure) is None]

    @property
    def cycles(self) -> int:
        """Passes of the target after prefill."""
        return sum(g.cycles for g in self.generations)

    @property
    def drafts(self) -> int:
        """Cycles that verified a draft."""
        return sum(g.counters.drafts for g in self.generations if g.counters is not None)

    @property
    def drafted(self) -> int:
        """Tokens drafted."""
        return sum(g.timings.draft_n for g in self.generations)

    @property
    def accepted(self) -> int:
        """Drafted tokens that the target accepted."""
        return sum(g.timings.draft_n_accepted for g in self.generations)

    @property
    def tokens_per_cycle(self) -> float:
        """Tokens per pass of the target; NaN when there was no pass."""
        return self.tokens / self.cycles if self.cycles > 0 else float("nan")

    @property
    def acceptance(self) -> float:
        """Accepted share of the drafted tokens; NaN when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else float("nan")

    @property
    def draft_width(self) -> float:
        """Drafted tokens per drafting cycle; NaN when nothing was drafted."""
        return self.drafted / self.drafts if self.drafts else float("nan")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval, all three on the figure's own scale."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Pair:
    """One prompt in one block, measured on both sides.

    ``tokens_*`` are decoded tokens after the first, ``cycles_*`` the target's passes, ``decode_ms_*`` the server's
    time for them.
    """

    prompt_id: str
    block: int
    tokens_reference: int
    tokens_candidate: int
    cycles_reference: int
    cycles_candidate: int
    decode_ms_reference: float
    decode_ms_candidate: float


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two cells of a panel, paired prompt by prompt. Ratios are candidate over reference; above 1 is better."""

    reference: CellKey
    candidate: CellKey
    pairs: tuple[Pair, ...]
    throughput: Estimate
    tokens_per_cycle: float
    cycles_per_s: Estimate


@dataclass(frozen=True, slots=True)
class Claim:
    """What a test declares before anything is measured.

    ``group`` restricts a contrast to one part of its workload. With ``against`` it is a ratio of two contrasts: that of
    the arm over ``over``, and that of ``against`` over ``against_over``, each over its own target's base. A claim
    ``across_builds`` needs its cells of the base build too.
    """

    id: str
    source: str
    kind: ClaimKind
    arms: tuple[str, ...]
    on: tuple[str, ...] = ()
    over: str | None = None
    study: bool = False
    server_flags: Mapping[str, Json] = field(default_factory=dict)
    figure: Figure = Figure.THROUGHPUT
    group: str = ""
    against: str | None = None
    against_over: str | None = None
    across_builds: bool = False

    @property
    def mode(self) -> Mode:
        """The mode of its panels."""
        return Mode.SPEED if self.kind is ClaimKind.SPEED else Mode.EXACT

    @property
    def cells(self) -> tuple[CellKey, ...]:
        """Every cell that it needs, the reference first."""
        others = tuple(arm for arm in (self.against_over, self.against) if arm)
        arms = dict.fromkeys(((self.over,) if self.over else ()) + self.arms + others)
        builds = (BASE_BUILD, NEW_BUILD) if self.across_builds else (NEW_BUILD,)
        return tuple(CellKey(self.mode, name, arm, build) for name in self.on for arm in arms for build in builds)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one comparison came to; a claim's verdict is made of its findings.

    ``measured`` and ``expected`` are one line each, for a person; ``detail`` may be several.
    """

    status: Status
    reason: Reason
    measured: str
    expected: str
    detail: str = ""
    remedy: str = ""
    evidence: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one claim, with what a reader needs to act on it."""

    claim: str
    status: Status
    kind: ClaimKind
    reason: Reason
    measured: str
    expected: str
    source: str
    detail: str = ""
    remedy: str = ""
    evidence: Mapping[str, Json] = field(default_factory=dict)
