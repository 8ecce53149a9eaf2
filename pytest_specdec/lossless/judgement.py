"""Is a drafted arm's greedy output the base's, up to ties within the measured noise?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from pytest_specdec.lossless.fork import Fork, first_fork
from pytest_specdec.lossless.noise import BLIND_SHARE, ENOUGH_POSITIONS, Noise, blind_share
from pytest_specdec.records import Finding, Generation, Json, Reason, Status

__all__ = ["Replay", "judge", "judge_replies"]

Replies = Sequence[Generation]


class Replay(Protocol):
    """What asking again can tell, once two replies have parted."""

    def go_on(self, base: Generation, start: int) -> Generation:
        """The other arm's reply after the base's text up to ``start``: its first token answers for that position."""

    def gap_nats(self, base: Generation, position: int, first: int, second: int) -> float | None:
        """How far the base sees ``second`` behind ``first`` there, under the request's own biases and penalties.

        None where the raw ranking is what counts, or the base does not list both.
        """


def judge(
    base: Replies, other: Replies, noise: Noise, replay: Replay, siblings: Mapping[str, Replies] | None = None
) -> Finding:
    """Compare prompt by prompt, past every tie to the end of the base's text.

    Both sides hold the same prompts in the same order. ``siblings`` are the replies of other drafted arms: one that
    parts at the same place points at the target side. A check that excuses too many positions has no power.
    """
    forks = [fork for mine, theirs in zip(base, other, strict=True) for fork in _forks(mine, theirs, noise, replay)]
    return _finding(base, forks, noise, siblings or {})


def judge_replies(base: Replies, other: Replies, noise: Noise) -> Finding:
    """The same without asking again: behind a tie the rest of that reply is not judged."""
    pairs = zip(base, other, strict=True)
    forks = [fork for fork in (first_fork(mine, theirs) for mine, theirs in pairs) if fork is not None]
    return _finding(base, forks, noise, {})


def _forks(base: Generation, other: Generation, noise: Noise, replay: Replay) -> list[Fork]:
    found: list[Fork] = []
    start = 0
    while (fork := first_fork(base, other, start)) is not None:
        found.append(_with_own_gap(fork, base, noise, replay))
        start = fork.position + 1
        if not found[-1].is_tie(noise.bound_nats) or start >= len(base.tokens) or not base.complete:
            break  # a reply that lacks tokens cannot be taken up in its middle
        other = replay.go_on(base, start)
    return found


def _with_own_gap(fork: Fork, base: Generation, noise: Noise, replay: Replay) -> Fork:
    if fork.base_token is None or fork.other_token is None or fork.is_tie(noise.bound_nats):
        return fork
    gap = replay.gap_nats(base, fork.position, fork.base_token, fork.other_token)
    # Under rounding the other one may even be ahead: what counts is the distance.
    return fork if gap is None else replace(fork, second_token=fork.other_token, gap_nats=abs(gap))


def _finding(base: Replies, forks: Sequence[Fork], noise: Noise, siblings: Mapping[str, Replies]) -> Finding:
    measured_noise = noise.positions >= ENOUGH_POSITIONS
    # How near a second choice must be to be a tie is not known without noise; any other token is no tie at all.
    losses = [
        fork for fork in forks if not (fork.is_tie(noise.bound_nats) if measured_noise else fork.is_second_choice)
    ]
    ties = [fork for fork in forks if fork.is_tie(noise.bound_nats)]
    blind = blind_share(base, noise)
    tokens = sum(len(generation.tokens) for generation in base)
    expected = f"the tokens of base, up to ties within {noise.bound_nats:.2g} nats"
    evidence = _evidence(base, tokens, losses, ties, noise, blind)
    if losses:
        measured = f"{len({fork.prompt_id for fork in losses})} of {len(base)} prompts differ; {_words(losses[0])}"
        detail = "\n".join([*(_line(fork, noise, base, siblings) for fork in losses), noise.words])
        return Finding(Status.FAIL, Reason.TOKENS_DIFFER, measured, expected, detail, evidence=evidence)
    if not measured_noise:
        measured = f"noise over {noise.positions} positions"
        remedy = "more or longer prompts in the workload that the noise is measured on"
        return Finding(Status.INCONCLUSIVE, Reason.NO_POWER, measured, f"{ENOUGH_POSITIONS} or more", remedy=remedy)
    if blind > BLIND_SHARE:
        measured = f"{blind:.1%} of {tokens} positions have a gap within the noise"
        detail = f"a difference there would pass for a tie; {noise.words}"
        return Finding(
            Status.INCONCLUSIVE, Reason.NO_POWER, measured, f"at most {BLIND_SHARE:.0%}", detail, evidence=evidence
        )
    told = f", {len(ties)} ties" if ties else ""
    return Finding(
        Status.PASS, Reason.HELD, f"{len(base)} prompts, {tokens} tokens identical{told}", expected, evidence=evidence
    )


def _evidence(
    base: Replies, tokens: int, losses: Sequence[Fork], ties: Sequence[Fork], noise: Noise, blind: float
) -> dict[str, Json]:
    return {
        "prompts": len(base),
        "tokens": tokens,
        "noise_bound_nats": noise.bound_nats,
        "noise_mean_nats": noise.mean_nats,
        "noise_positions": noise.positions,
        "noise_flips": noise.flips,
        "noise_widths": list(noise.widths),
        "blind_share": blind,
        "ties": [_fork_evidence(fork) for fork in ties],
        "ties_beyond_the_largest_change": sum((fork.gap_nats or 0.0) > noise.largest_nats for fork in ties),
        "losses": [_fork_evidence(fork) for fork in losses],
    }


def _words(fork: Fork) -> str:
    return f"{fork.prompt_id} at token {fork.position}: {_token(fork.other_token)} for {_token(fork.base_token)}"


def _line(fork: Fork, noise: Noise, base: Replies, siblings: Mapping[str, Replies]) -> str:
    gap = "unknown" if fork.gap_nats is None else f"{fork.gap_nats:.4g} nats"
    second = "is" if fork.is_second_choice else "is not" if fork.second_token is not None else "may be"
    return (
        f"{_words(fork)}; it {second} the base's second choice, whose gap is {gap} (noise {noise.bound_nats:.2g}); "
        f"{_same_place(fork, base, siblings)}; after {fork.context!r}"
    )


def _same_place(fork: Fork, base: Replies, siblings: Mapping[str, Replies]) -> str:
    if not siblings:
        return "no other drafter was measured"
    also = [
        name for name, replies in siblings.items() if _first_position(fork.prompt_id, base, replies) == fork.position
    ]
    if also:
        return f"{', '.join(also)} part{'s' if len(also) == 1 else ''} there too, which points at the target side"
    return f"{', '.join(siblings)} do{'es' if len(siblings) == 1 else ''} not part there, which points at the drafter"


def _first_position(prompt_id: str, base: Replies, other: Replies) -> int | None:
    for mine, theirs in zip(base, other, strict=True):
        if mine.prompt_id == prompt_id:
            fork = first_fork(mine, theirs)
            return fork.position if fork else None
    return None


def _token(token: int | None) -> str:
    return "the end" if token is None else f"token {token}"


def _fork_evidence(fork: Fork) -> Json:
    return {
        "prompt": fork.prompt_id,
        "position": fork.position,
        "base_token": fork.base_token,
        "other_token": fork.other_token,
        "base_second_token": fork.second_token,
        "gap_nats": fork.gap_nats,
        "context": fork.context,
    }
