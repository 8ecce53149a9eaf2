"""What a speed claim is compared with here: its record, a published floor, nothing yet, or no judgement at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pytest_specdec.availability import FLAGS_UNKNOWN, record_says_nothing
from pytest_specdec.baseline import Entry, differences
from pytest_specdec.baseline.entries import EntryKind
from pytest_specdec.measure.panel import block_size
from pytest_specdec.measure.question import Question
from pytest_specdec.records import (
    BASE_BUILD,
    CellKey,
    Claim,
    Finding,
    Mode,
    Reason,
    Settings,
    Status,
    UpdateBaseline,
    Workload,
)
from pytest_specdec.stats.rule import LEAST_PAIRS, Rule, StoredError

if TYPE_CHECKING:
    from pytest_specdec.baseline import Baselines, Calibrated, Comparability
    from pytest_specdec.records import Profile

__all__ = [
    "DEFAULT_MARGIN",
    "RATIO",
    "Context",
    "Expectation",
    "expectation_of",
    "intraclass_of",
    "sides_of",
    "sigma_of",
]

RATIO = "×"  # the unit of an entry whose value is a ratio of a contrast
AGAIN = "again"  # the build's role where an arm is compared with itself

DEFAULT_MARGIN = 0.05
_LEAST_RECORDED = 20  # pairs; sigma is then known to about 16 %


class Context(Protocol):
    """What of a run, or of a plan, the expectation depends on."""

    @property
    def settings(self) -> Settings:
        """What the user asked for."""

    @property
    def profile(self) -> Profile:
        """Whose arms and workloads."""

    @property
    def baselines(self) -> Baselines:
        """Stored entries."""

    @property
    def statistical_claims(self) -> int:
        """How many claims share alpha, as far as they are selected."""

    @property
    def device(self) -> str:
        """The device key."""

    def workload(self, name: str) -> Workload:
        """Raises ProfileError."""

    def comparability(self, claim: Claim) -> Comparability | None:
        """What a record must agree with; None where nobody can know yet."""

    def is_other_machine(self, machine: str) -> bool:
        """Whether a speed recorded on ``machine`` says nothing here."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The question to the panel, and the words for what is expected. ``entry`` is None where it is to be recorded.

    ``residuals``: without a change the values are A/A residuals of a noise that was measured on this machine, so they
    must be as quiet and as independent as those were.
    """

    question: Question
    entry: Entry | None
    words: str
    remark: str = ""
    residuals: bool = False


def expectation_of(run: Context, claim: Claim) -> Expectation | Finding:
    """What ``claim`` asks of its panel; a finding where nothing needs to be measured to know the verdict."""
    if claim.across_builds:
        return _to_record(run, claim) if run.settings.calibrate else _against_base_build(run, claim)
    if claim.over is None:
        return _cells_alone(run, claim)
    if _is_to_be_recorded(run, claim):
        return _to_record(run, claim)
    entry, remark = run.baselines.entry(claim.id), ""
    if entry is not None and entry.kind is EntryKind.RECORDED:
        if run.settings.server_urls:
            remark, entry = FLAGS_UNKNOWN, run.baselines.published.get(claim.id)
        elif run.is_other_machine(str(entry.provenance.get("machine", ""))):
            remark = (
                f"the record is of another machine ({entry.provenance.get('machine')}): to gate on this one as "
                "closely, run with --specdec-calibrate, then with --specdec-update-baseline"
            )
            entry = run.baselines.published.get(claim.id)
        else:
            return _against_record(run, claim, entry)
    if entry is None or entry.value is None:
        return _without_entry(run, remark)
    return _against_floor(run, claim, entry, remark)


def sigma_of(run: Context, claim: Claim, workload: Workload | None = None) -> float:
    """Spread of a pair of this contrast, natural-log units: calibrated, else the workload's or the profile's guess."""
    calibrated = _calibrated(run, claim)
    if calibrated is not None:
        return calibrated.sigma
    guess = workload.sigma if workload is not None else None
    return guess if guess is not None else run.profile.speed.sigma


def intraclass_of(run: Context, calibrated: Calibrated | None, workload: Workload) -> float:
    """Correlation of the pairs of one block: calibrated, else the workload's or the profile's guess."""
    if calibrated is not None and calibrated.intraclass is not None:
        return calibrated.intraclass
    return workload.intraclass if workload.intraclass is not None else run.profile.speed.intraclass


def _calibrated(run: Context, claim: Claim) -> Calibrated | None:
    """What A/A measured of this contrast on this machine."""
    calibrated = run.baselines.calibrations.get(claim.id)
    return None if calibrated is None or run.is_other_machine(calibrated.machine) else calibrated


def _is_to_be_recorded(run: Context, claim: Claim) -> bool:
    settings: Settings = run.settings
    if settings.calibrate or settings.update_baseline is UpdateBaseline.ALL:
        return True
    entry = run.baselines.entry(claim.id)
    recorded = entry is not None and entry.kind is EntryKind.RECORDED
    return settings.update_baseline is UpdateBaseline.NEW and not recorded


def _to_record(run: Context, claim: Claim) -> Expectation:
    prompts = len(prompts_that_count(run.workload(claim.on[0]), claim))
    passes = math.ceil(_LEAST_RECORDED / prompts)
    if run.settings.calibrate:
        passes = max(passes, run.profile.speed.sessions)
    question = _question(run, claim, _rule(run, claim), None, wanted=prompts * passes)
    return Expectation(question, None, "recorded now")


def _against_base_build(run: Context, claim: Claim) -> Expectation:
    """Prompt by prompt no slower than the base build: nothing stored is needed, and no error of it counts."""
    rule = _rule(run, claim)
    none = dict.fromkeys(prompts_that_count(run.workload(claim.on[0]), claim), 0.0)
    words = f"no slower than the base build − {rule.margin:.0%}"
    return Expectation(_question(run, claim, rule, none), None, words, residuals=_calibrated(run, claim) is not None)


def _cells_alone(run: Context, claim: Claim) -> Expectation:
    """A claim about the cells themselves: enough of each for the decision rule's least number of pairs."""
    workload = run.workload(claim.on[0])
    cells = frozenset(CellKey(Mode.SPEED, workload.name, arm) for arm in claim.arms)
    counted = prompts_that_count(workload, claim)
    question = Question(claim.id, (), claim.figure, counted, _rule(run, claim), wanted=LEAST_PAIRS, alone=cells)
    return Expectation(question, None, "its own comparison")


def _against_record(run: Context, claim: Claim, entry: Entry) -> Expectation | Finding:
    stored = entry.contrast
    now = run.comparability(claim)
    lines = differences(entry.comparability, now) if now is not None else []
    if stored is None or lines:
        remedy = "record anew with --specdec-update-baseline after a look at what changed"
        detail = "\n".join(lines) or "the record has no ratios by prompt"
        return Finding(Status.VOID, Reason.BASELINE_MISMATCH, "nothing", "the record's own setting", detail, remedy)
    margin = max(run.settings.margin or DEFAULT_MARGIN, stored.margin)
    error = StoredError(stored.se, stored.tau, stored.tau_dof or math.inf)
    rule = replace(_rule(run, claim), margin=margin, sigma=stored.sigma, intraclass=stored.intraclass, error=error)
    value = entry.value or math.nan
    words = f"×{value:.3f} − {margin:.0%} ({entry.provenance['build']}, {entry.provenance['date']})"
    return Expectation(_question(run, claim, rule, stored.logs), entry, words, residuals=True)


def _against_floor(run: Context, claim: Claim, entry: Entry, remark: str) -> Expectation:
    published = f"published ×{entry.value:g} on {entry.device}"
    rule = _rule(run, claim)
    if entry.floor is None:
        question = _question(run, claim, rule, None, wanted=LEAST_PAIRS)
        return Expectation(question, entry, f"{published}; no floor stated", remark)
    words = f"at least ×{entry.floor:g} − {rule.margin:.0%} ({published})"
    return Expectation(_question(run, claim, rule, math.log(entry.floor)), entry, words, remark)


def _without_entry(run: Context, remark: str) -> Finding:
    if run.settings.server_urls:
        return record_says_nothing("nothing", {})
    remedy = "calibrate and record: --specdec-calibrate, then --specdec-update-baseline=new (docs/first-run.md)"
    if run.baselines.has_speed_records and not remark:
        detail = "other speed claims have records on this device, so that one is missing is a fault"
        expected = f"a record in {run.baselines.path}"
        return Finding(Status.FAIL, Reason.RECORD_MISSING, "nothing", expected, detail, remedy)
    detail = remark or f"none on {run.baselines.device}, and no published floor"
    return Finding(Status.NOT_JUDGED, Reason.NO_RECORD, "nothing", "a record", detail, remedy)


def _rule(run: Context, claim: Claim) -> Rule:
    settings, workload = run.settings, run.workload(claim.on[0])
    block = block_size(workload, run.profile.speed.block_prompts)
    return Rule(
        sigma=sigma_of(run, claim, workload),
        margin=settings.margin or DEFAULT_MARGIN,
        alpha=settings.alpha,
        beta=settings.beta,
        claims=max(run.profile.speed.claims, run.statistical_claims),
        budget_pairs=settings.budget.pairs,
        intraclass=intraclass_of(run, _calibrated(run, claim), workload),
        block_pairs=min(block, len(prompts_that_count(workload, claim))),
    )


def _question(
    run: Context, claim: Claim, rule: Rule, anchor: float | Mapping[str, float] | None, *, wanted: int = 0
) -> Question:
    workload = run.workload(claim.on[0])
    counted = prompts_that_count(workload, claim)
    exact = not workload.sampled and not workload.request.get("temperature")
    return Question(claim.id, sides_of(claim), claim.figure, counted, rule, anchor, exact, wanted)


def prompts_that_count(workload: Workload, claim: Claim) -> dict[str, str]:
    """Id → group of the prompts of the claim's part of the workload."""
    return {
        prompt.id.partition("#")[0]: prompt.group
        for prompt in workload.prompts
        if not claim.group or prompt.group == claim.group
    }


def sides_of(claim: Claim) -> tuple[tuple[CellKey, CellKey], ...]:
    """Reference and candidate of its contrast, or of both where it compares two.

    An arm over itself is measured twice, which is A/A.
    """
    if claim.across_builds:
        name, arm = claim.on[0], claim.arms[0]
        return ((CellKey(Mode.SPEED, name, arm, BASE_BUILD), CellKey(Mode.SPEED, name, arm)),)
    pairs = [(claim.over, claim.arms[0]), (claim.against_over, claim.against)]
    return tuple(
        (
            CellKey(Mode.SPEED, claim.on[0], over, AGAIN if over == arm else "new"),
            CellKey(Mode.SPEED, claim.on[0], arm),
        )
        for over, arm in pairs
        if over and arm
    )
