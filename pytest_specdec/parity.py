"""Two builds, one arm: are the tokens the same up to ties, and the counters on what is the same?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_specdec.lossless import Fork, Noise, first_fork
from pytest_specdec.lossless.noise import BLIND_SHARE, blind_share
from pytest_specdec.records import Cell, Finding, Generation, Json, Reason, Status

__all__ = ["Builds", "counters_parity", "tokens_parity"]

_TOLERANCE = 0.05  # of tokens per cycle across builds: rounding in a drafter changes single drafts
_LEAST_COMPARED = 0.5  # a share of the base's tokens: behind a tie the contexts differ, and nothing is compared


@dataclass(frozen=True, slots=True)
class Builds:
    """One arm's cells on both builds, and those of the undrafted target, which tell gaps and whose change it is.

    ``cut`` replies were asked for again, to end where the builds part.
    """

    before: Cell
    after: Cell
    target_before: Cell
    target_after: Cell
    cut: int = 0

    @property
    def pairs(self) -> list[tuple[Generation, Generation]]:
        """Prompt by prompt."""
        return list(zip(self.before.generations, self.after.generations, strict=True))


def tokens_parity(builds: Builds, noise: Noise) -> Finding:
    """The lossless rule across builds: the first fork of each prompt is a tie, or a difference with its cause.

    A tie is worth something only where few positions could pass for one.
    """
    bound_nats = noise.bound_nats
    forks = [fork for fork in (_fork(builds, number) for number in range(len(builds.pairs))) if fork is not None]
    losses = [fork for fork in forks if not fork.is_tie(bound_nats)]
    tokens = sum(len(before.tokens) for before, _ in builds.pairs)
    parted = {fork.prompt_id: fork.position for fork in forks}
    compared = sum(parted.get(before.prompt_id, len(before.tokens)) for before, _ in builds.pairs) / max(1, tokens)
    evidence: dict[str, Json] = {
        "prompts": len(builds.pairs),
        "tokens": tokens,
        "compared_share": compared,
        "bound_nats": bound_nats,
        "ties": [_evidence(fork) for fork in forks if fork not in losses],
        "differences": [_evidence(fork) for fork in losses],
    }
    expected = f"the base build's tokens, up to ties within {bound_nats:.2g} nats"
    if losses:
        measured = f"{len(losses)} of {len(builds.pairs)} prompts differ; {_words(losses[0])}"
        detail = "\n".join([_whose_change(builds, losses), *map(_line, losses)])
        return Finding(Status.FAIL, Reason.TOKENS_DIFFER, measured, expected, detail, evidence=evidence)
    measured = f"{len(builds.pairs)} prompts, {compared:.0%} of {tokens} tokens compared, {len(forks)} parted at a tie"
    blind = blind_share(builds.target_before.generations, noise)
    if forks and blind > BLIND_SHARE:
        detail = f"{blind:.1%} of the positions have a gap within the noise: a difference there would pass for a tie"
        return Finding(Status.INCONCLUSIVE, Reason.NO_POWER, measured, expected, detail, evidence=evidence)
    if compared < _LEAST_COMPARED:
        detail = "the builds round so differently that most text lies behind a tie"
        return Finding(Status.INCONCLUSIVE, Reason.NO_POWER, measured, expected, detail, evidence=evidence)
    return Finding(Status.PASS, Reason.HELD, measured, expected, evidence=evidence)


def counters_parity(builds: Builds) -> Finding:
    """Counters are compared on replies with the same tokens; elsewhere the text itself explains a difference.

    Exactly first. Where they differ, tokens per cycle may move by what rounding in a drafter moves them; where the
    drafts are the same too, only the counting has changed, which is told and blames nobody.
    """
    same = [(before, after) for before, after in builds.pairs if before.tokens == after.tokens]
    differing = [words for before, after in same if (words := _counter_words(before, after))]
    expected = "the base build's counters wherever the tokens are the same"
    rates = [_tokens_per_cycle([pair[side] for pair in same]) for side in (0, 1)]
    change = rates[1] / rates[0] - 1 if rates[0] else 0.0
    evidence: dict[str, Json] = {
        "prompts": len(builds.pairs),
        "same_text": len(same),
        "cut": builds.cut,
        "differing": differing,
        "tokens_per_cycle_before": rates[0],
        "tokens_per_cycle_after": rates[1],
    }
    told = f"{len(same)} of {len(builds.pairs)} replies have the same tokens"
    if builds.cut:
        told += f", {builds.cut} of them asked for again up to where they part"
    if len(same) < _LEAST_COMPARED * len(builds.pairs):
        detail = "counters of different texts say nothing; parity.tokens says why the texts differ"
        return Finding(Status.INCONCLUSIVE, Reason.NO_POWER, told, expected, detail, evidence=evidence)
    if not differing:
        return Finding(Status.PASS, Reason.HELD, f"{told} and the same counters", expected, evidence=evidence)
    measured = f"{told}, {len(differing)} of them other counters; tokens per cycle {change:+.1%}"
    detail = "\n".join([f"cause: {_cause(same, change)}", *differing])
    if abs(change) > _TOLERANCE and not all(_same_drafts(before, after) for before, after in same):
        return Finding(Status.FAIL, Reason.ACCEPTANCE_MOVED, measured, expected, detail, evidence=evidence)
    if any(_asked(before) != _asked(after) for before, after in same):
        return Finding(Status.FAIL, Reason.COUNTERS_DISAGREE, measured, expected, detail, evidence=evidence)
    return Finding(
        Status.PASS, Reason.HELD, measured, f"tokens per cycle ± {_TOLERANCE:.0%}", detail, evidence=evidence
    )


def _fork(builds: Builds, number: int) -> Fork | None:
    """The first fork, with the gap that either build's undrafted target saw there after the same text."""
    before, after = builds.pairs[number]
    fork = first_fork(before, after)
    if fork is None:
        return None
    targets = (builds.target_before.generations[number], before), (builds.target_after.generations[number], after)
    seen = (_as_seen_by(target, reply, fork) for target, reply in targets)
    return next((known for known in seen if known is not None), fork)


def _as_seen_by(target: Generation, reply: Generation, fork: Fork) -> Fork | None:
    """The fork with that target's gap, in which the two tokens are its first and second choice; None if it cannot tell.

    Either build's token may be the first: under rounding the other one takes the lead.
    """
    position = fork.position
    if target.tokens[:position] != reply.tokens[:position] or position >= len(target.alternatives):
        return None
    best, second = target.tokens[position], target.alternatives[position]
    if {best, second.token} != {fork.base_token, fork.other_token}:
        return replace(fork, second_token=None, gap_nats=second.gap_nats)
    return replace(fork, second_token=fork.other_token, gap_nats=second.gap_nats)


def _whose_change(builds: Builds, losses: Sequence[Fork]) -> str:
    """Speculation is to blame only where the target alone still says the same."""
    if builds.before.key.arm == builds.target_before.key.arm:
        return "cause: the target itself says something else, without any drafter"
    forked = {}
    for before, after in zip(builds.target_before.generations, builds.target_after.generations, strict=True):
        fork = first_fork(before, after)
        if fork is not None:
            forked[before.prompt_id] = fork.position
    by_target = sum(forked.get(fork.prompt_id, fork.position + 1) <= fork.position for fork in losses)
    if by_target == len(losses):
        return "cause: not speculative; the target alone parts at or before the same places"
    if by_target == 0:
        return "cause: speculative; the target alone says the same on both builds"
    return f"cause: in {by_target} of {len(losses)} prompts the target alone parts too; in the others speculation does"


def _cause(same: Sequence[tuple[Generation, Generation]], change: float) -> str:
    parts = []
    if any(_asked(before) != _asked(after) for before, after in same):
        parts.append("text or its tokens: prompts or replies are counted differently")
    drafted = [sum(pair[side].timings.draft_n for pair in same) for side in (0, 1)]
    if drafted[0] != drafted[1]:
        parts.append(f"drafting: {drafted[0]} → {drafted[1]} tokens drafted")
    accepted = [sum(pair[side].timings.draft_n_accepted for pair in same) for side in (0, 1)]
    if accepted[0] != accepted[1] and all(_same_drafts(before, after) for before, after in same):
        parts.append(
            f"counting: {accepted[0]} → {accepted[1]} tokens counted as accepted, at most one a reply, in the same "
            "drafts of the same text: the builds count the draft in which a reply ends differently"
        )
    elif accepted[0] != accepted[1]:
        parts.append(f"acceptance: {accepted[0]} → {accepted[1]} tokens accepted")
    return "; ".join(parts) or f"single drafts ({change:+.1%} tokens per cycle)"


def _same_drafts(before: Generation, after: Generation) -> bool:
    """The same drafts of the same text: then the target has accepted the same, however it is counted."""
    if before.counters is None or after.counters is None:
        return False
    same = before.counters.drafts == after.counters.drafts and before.timings.draft_n == after.timings.draft_n
    return same and abs(before.timings.draft_n_accepted - after.timings.draft_n_accepted) <= 1


def _asked(generation: Generation) -> tuple[int, int, str]:
    """What no drafter may change: the prompt's and the reply's length, and why it ended."""
    return generation.timings.prompt_n, generation.timings.predicted_n, generation.stop_type.value


def _counter_words(before: Generation, after: Generation) -> str:
    one, two = _counted(before), _counted(after)
    moved = [f"{name} {one[name]} → {two[name]}" for name in one if one[name] != two.get(name)]
    return f"{before.prompt_id}: {', '.join(moved)}" if moved else ""


def _counted(generation: Generation) -> Mapping[str, Json]:
    timings, counters = generation.timings, generation.counters
    return {
        "prompt": timings.prompt_n,
        "predicted": timings.predicted_n,
        "stop": generation.stop_type.value,
        "drafted": timings.draft_n,
        "accepted": timings.draft_n_accepted,
        "drafts": counters.drafts if counters is not None else None,
        "by position": list(counters.accepted_per_position) if counters is not None else None,
    }


def _tokens_per_cycle(generations: Sequence[Generation]) -> float:
    cycles = sum(g.cycles for g in generations)
    return sum(max(0, g.timings.predicted_n - 1) for g in generations) / cycles if cycles > 0 else 0.0


def _words(fork: Fork) -> str:
    return f"{fork.prompt_id} at token {fork.position}: {_token(fork.other_token)} for {_token(fork.base_token)}"


def _line(fork: Fork) -> str:
    gap = "unknown" if fork.gap_nats is None else f"{fork.gap_nats:.4g} nats"
    return f"{_words(fork)}; the target's gap there is {gap}; after {fork.context!r}"


def _token(token: int | None) -> str:
    return "the end" if token is None else f"token {token}"


def _evidence(fork: Fork) -> Json:
    return {
        "prompt": fork.prompt_id,
        "position": fork.position,
        "before": fork.base_token,
        "after": fork.other_token,
        "gap_nats": fork.gap_nats,
        "context": fork.context,
    }
