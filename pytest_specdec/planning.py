"""What the selected claims would cost, with the arithmetic, before anything starts: no models and no server needed."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_specdec.baseline import Baselines, Comparability
from pytest_specdec.errors import SpecdecError
from pytest_specdec.expectation import Expectation, expectation_of
from pytest_specdec.measure.panel import Panel
from pytest_specdec.measure.question import BLOCKS_PER_ROUND, Question
from pytest_specdec.panels import panel_of
from pytest_specdec.profile import compose
from pytest_specdec.records import NEW_BUILD, Arm, CellKey, Claim, Mode, Profile, Settings, Workload
from pytest_specdec.report.table import table
from pytest_specdec.stats.rule import detectable_slowdown, pairs_to_pass
from pytest_specdec.wording import counted, lasting
from pytest_specdec.workloads import load

__all__ = ["PlanContext", "plan_lines"]

_CHARACTERS_PER_TOKEN = 4
_COLUMNS = ("claim", "pairs if nothing changed", "at most", "finds a slowdown of", "sigma", "margin")
_WRAP = 110
_REPLY_TOKENS = 256  # where neither the workload nor its request says


@dataclass
class PlanContext:
    """What the expectations of claims depend on, without a build."""

    settings: Settings
    profile: Profile
    baselines: Baselines
    claims: Sequence[Claim]
    device: str
    machine: str
    _workloads: dict[str, Workload] = field(default_factory=dict)

    @property
    def statistical_claims(self) -> int:
        """How many of the selected claims are decided by statistics."""
        return sum(claim.mode is Mode.SPEED for claim in self.claims)

    def workload(self, name: str) -> Workload:
        """Raises ProfileError."""
        if name not in self._workloads:
            self._workloads[name] = load(self.profile, name)
        return self._workloads[name]

    def comparability(self, claim: Claim) -> Comparability | None:
        """Nobody can know before the models are there."""
        return None

    def is_other_machine(self, machine: str) -> bool:
        """As of the run."""
        return self.device == "cpu" and machine != self.machine

    def arm(self, name: str) -> Arm:
        """Raises ProfileError."""
        return compose(self.profile, name)

    def lacks(self, claim: Claim) -> str:
        """What the claim names and neither the profile nor the command line has; empty where all is there."""
        if claim.across_builds and self.settings.llama_server_base is None:
            return "a second build (--llama-server-base=PATH)"
        for name in claim.involved:
            for arm in (re.split("[+@]", name)[0], name):  # where there is no mtp there is no mtp@4 either
                try:
                    self.arm(arm)
                except SpecdecError:
                    return f"the arm {arm}"
        for name in claim.on:
            try:
                self.workload(name)
            except SpecdecError:
                return f"the workload {name}"
        return ""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Server starts, tokens and seconds of the device."""

    starts: int = 0
    prompt_tokens: float = 0.0
    reply_tokens: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: _Cost) -> _Cost:
        return _Cost(
            self.starts + other.starts,
            self.prompt_tokens + other.prompt_tokens,
            self.reply_tokens + other.reply_tokens,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class _PanelPlan:
    """One panel: its arms, the rounds that each is expected to take part in, and the questions."""

    panel: Panel
    rounds: Mapping[CellKey, int]
    questions: Sequence[Question]


def plan_lines(context: PlanContext) -> list[str]:
    """The plan in words: claims that cannot be judged, exact cells, speed panels, and the sum."""
    lacking = {claim.id: what for claim in context.claims if (what := context.lacks(claim))}
    runnable = [claim for claim in context.claims if claim.id not in lacking]
    panels = list(_panels(context, runnable))
    exact = _exact_cost(context, runnable)
    costs = [_panel_cost(context, plan) for plan in panels]
    total = sum(costs, exact)
    tokens = exact.prompt_tokens + exact.reply_tokens
    need = "needs" if len(lacking) == 1 else "need"
    lines = [
        f"plan for profile {context.profile.name} on {context.device}: {counted(len(context.claims), 'claim')}, "
        + (f"{len(lacking)} of them {need} what is not there:" if lacking else "nothing that they need is missing"),
        *_lacking_lines(lacking),
        "",
        f"exact claims: {counted(exact.starts, 'server start')}, {tokens:,.0f} tokens, {lasting(exact.seconds)}",
    ]
    for plan, cost in zip(panels, costs, strict=True):
        lines += _panel_lines(context, plan, cost)
    return [*lines, "", *_sum_lines(context, total)]


def _lacking_lines(lacking: Mapping[str, str]) -> Iterator[str]:
    """By what is missing: the claims that need it."""
    for what in sorted(set(lacking.values())):
        named = ", ".join(claim for claim, lacks in lacking.items() if lacks == what)
        yield from textwrap.wrap(
            f"{what}: {named}", _WRAP, initial_indent="  ", subsequent_indent="    ", break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip


def _panels(context: PlanContext, claims: Sequence[Claim]) -> Iterator[_PanelPlan]:
    speed = [claim for claim in claims if claim.mode is Mode.SPEED and claim.on]
    for name in dict.fromkeys(claim.on[0] for claim in speed):
        expected = [expectation_of(context, claim) for claim in speed if claim.on[0] == name]
        questions = [e.question for e in expected if isinstance(e, Expectation)]
        if not questions:
            continue
        workload = context.workload(name)
        panel = panel_of(workload, questions, context.profile.speed.block_prompts, context.settings.seed or 0)
        needed = {q.claim: _rounds(panel, q) for q in questions}
        rounds = {key: max(needed[q.claim] for q in questions if key in q.cells) for key in panel.cells}
        yield _PanelPlan(panel, rounds, questions)


def _rounds(panel: Panel, question: Question) -> int:
    """Rounds after which the question is answered in about half of the runs, if nothing has changed."""
    pairs = question.wanted if question.anchor is None else pairs_to_pass(question.rule)
    rounds = got = 0
    while got < pairs:
        got += sum(prompt.id.partition("#")[0] in question.prompts for b in panel.round(rounds) for prompt in b.prompts)
        rounds += 1
    return rounds


def _panel_cost(context: PlanContext, plan: _PanelPlan) -> _Cost:
    workload = context.workload(plan.panel.workload)
    cost = _Cost()
    for key, rounds in plan.rounds.items():
        arm = context.arm(key.arm)
        for number in range(rounds * BLOCKS_PER_ROUND):
            prompts = plan.panel.block(number).prompts
            read = workload.prompts.index(prompts[0]) if workload.conversation else 0
            cost += _visit(context, workload, arm, len(prompts), cooled=True, read=read)
    if not workload.conversation or workload.sampled:
        return cost
    answered = workload.prompts.index(plan.panel.prompts[-1])  # all turns before the last that an arm may be asked
    return cost + _visit(context, workload, context.arm("base"), answered, cooled=True) if answered else cost


def _exact_cost(context: PlanContext, claims: Sequence[Claim]) -> _Cost:
    """Each exact cell once; a claim on live servers a start per arm."""
    exact = [claim for claim in claims if claim.mode is Mode.EXACT]
    cost = _Cost()
    for key in dict.fromkeys(key for claim in exact for key in claim.cells):
        workload = context.workload(key.workload)
        cost += _visit(context, workload, context.arm(key.arm), len(workload.prompts), cooled=False)
    live = sum(len(claim.arms) for claim in exact if not claim.on)
    return cost + _Cost(starts=live, seconds=live * context.profile.speed.server_start_s)


def _visit(context: PlanContext, workload: Workload, arm: Arm, prompts: int, *, cooled: bool, read: int = 0) -> _Cost:
    """One server start and some requests; ``read``: turns of a conversation before the first of them."""
    speed = context.profile.speed
    prompt_tokens, reply_tokens = _lengths(context.profile, workload)
    rate = speed.decode_tokens_per_s * (speed.speed_up if arm.drafted else 1.0)
    seconds = speed.server_start_s + (speed.cooldown_s if cooled else 0.0)
    seconds += (prompts + read) * prompt_tokens / speed.prefill_tokens_per_s + prompts * reply_tokens / rate
    return _Cost(1, (prompts + read) * prompt_tokens, prompts * reply_tokens, seconds)


def _lengths(profile: Profile, workload: Workload) -> tuple[float, float]:
    """Tokens of a prompt and of a reply, on average. Of a conversation the cache answers for what was said before."""
    sizes: Mapping[str, Any] = profile.workloads[workload.name]
    characters = sum(len(prompt.text) for prompt in workload.prompts) / len(workload.prompts)
    prompt = float(sizes.get("prompt_tokens", characters / _CHARACTERS_PER_TOKEN))
    reply = float(sizes.get("reply_tokens", sizes.get("n_predict", _REPLY_TOKENS)))
    return (prompt + reply if workload.conversation else prompt), reply


def _panel_lines(context: PlanContext, plan: _PanelPlan, cost: _Cost) -> Iterator[str]:
    workload = context.workload(plan.panel.workload)
    prompt_tokens, reply_tokens = _lengths(context.profile, workload)
    blocks = sum(plan.rounds.values()) * BLOCKS_PER_ROUND
    yield ""
    yield (
        f"speed on {workload.name}: {counted(len(plan.panel.cells), 'arm')}, blocks of {plan.panel.block_prompts} of "
        f"{counted(len(plan.panel.prompts), 'prompt')}, {counted(blocks, 'visit')} to an arm = "
        f"{counted(cost.starts, 'server start')}; "
        f"about {prompt_tokens:,.0f} + {reply_tokens:,.0f} tokens a request, "
        f"{cost.prompt_tokens + cost.reply_tokens:,.0f} in all, {lasting(cost.seconds)}"
    )
    for key, rounds in sorted(plan.rounds.items()):
        role = "" if key.build == NEW_BUILD else f" ({key.build})"
        yield f"  {key.arm + role:<24} {counted(rounds, 'round')}"
    for line in table(_COLUMNS, [_question_row(question) for question in plan.questions]).splitlines():
        yield f"  {line}"


def _question_row(question: Question) -> tuple[str, ...]:
    """As ``_COLUMNS`` says; ``finds`` is the slowdown that the most pairs can tell from none."""
    if question.anchor is None:
        return question.claim, str(question.wanted), str(question.wanted), "nothing to decide", "-", "-"
    rule = question.rule
    pairs, most = str(pairs_to_pass(rule)), str(rule.cap)
    shares = (f"{detectable_slowdown(rule):.1%}", f"{rule.sigma:.1%}", f"{rule.margin:.0%}")
    return question.claim, pairs, most, *shares


def _sum_lines(context: PlanContext, total: _Cost) -> Iterator[str]:
    speed = context.profile.speed
    waits = f"{speed.server_start_s:g} s to start a server"
    if speed.cooldown_s:
        waits += f", {speed.cooldown_s:g} s to cool before each of a speed panel"
    yield (
        f"reckoned with {waits}, {speed.prefill_tokens_per_s:,.0f} prompt tokens per second, "
        f"{speed.decode_tokens_per_s:g} tokens per second for base and ×{speed.speed_up:g} for a drafted arm"
    )
    budget = context.settings.budget
    if budget.seconds is not None:
        yield f"the budget ends the speed panels after {lasting(budget.seconds)}"
    yield (
        f"in all {counted(total.starts, 'server start')}, {total.prompt_tokens:,.0f} prompt tokens, "
        f"{total.reply_tokens:,.0f} reply tokens: about {counted(math.ceil(total.seconds / 60), 'device minute')}"
    )
