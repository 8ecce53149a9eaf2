"""Is a drafted cell's greedy output the base's, up to near-ties?"""

from __future__ import annotations

from pytest_specdec.lossless.fork import Fork, first_fork
from pytest_specdec.records import Cell, Finding, Json, Reason, Status

__all__ = ["NOISE_NATS", "judge"]

# A batched verification rounds differently from a single-token decode. On the embedded wheel a fork was seen at a gap
# of 0.0005 nats; the next smallest gap in 200 tokens was 0.019.
NOISE_NATS = 0.01


def judge(base: Cell, other: Cell, noise_nats: float = NOISE_NATS) -> Finding:
    """Compare prompt by prompt; only the first fork of a prompt counts, since behind it the contexts differ.

    Both cells must hold the same prompts in the same order.
    """
    pairs = list(zip(base.generations, other.generations, strict=True))
    forks = [fork for fork in (first_fork(mine, theirs) for mine, theirs in pairs) if fork is not None]
    losses = [fork for fork in forks if not fork.is_tie(noise_nats)]
    positions = sum(len(mine.tokens) for mine in base.generations)
    evidence: dict[str, Json] = {
        "prompts": len(pairs),
        "tokens": positions,
        "noise_nats": noise_nats,
        "ties": [_evidence(fork) for fork in forks if fork.is_tie(noise_nats)],
        "losses": [_evidence(fork) for fork in losses],
    }
    expected = f"the tokens of {base.key.arm}, up to ties within {noise_nats:g} nats"
    if losses:
        measured = f"{len(losses)} of {len(pairs)} prompts differ; {_words(losses[0])}"
        detail = "\n".join(_line(fork) for fork in losses)
        return Finding(Status.FAIL, Reason.TOKENS_DIFFER, measured, expected, detail, evidence=evidence)
    ties = f", {len(forks)} parted at a tie" if forks else ""
    measured = f"{len(pairs)} prompts, {positions} tokens identical{ties}"
    return Finding(Status.PASS, Reason.HELD, measured, expected, evidence=evidence)


def _words(fork: Fork) -> str:
    return f"{fork.prompt_id} at token {fork.position}: {_token(fork.other_token)} for {_token(fork.base_token)}"


def _line(fork: Fork) -> str:
    gap = "unknown" if fork.gap_nats is None else f"{fork.gap_nats:.4f} nats"
    second = "is" if fork.other_token == fork.second_token else "is not"
    return f"{_words(fork)}; it {second} the base's second choice, whose gap is {gap}; after {fork.context!r}"


def _token(token: int | None) -> str:
    return "the end" if token is None else f"token {token}"


def _evidence(fork: Fork) -> Json:
    return {
        "prompt": fork.prompt_id,
        "position": fork.position,
        "base_token": fork.base_token,
        "other_token": fork.other_token,
        "base_second_token": fork.second_token,
        "gap_nats": fork.gap_nats,
        "context": fork.context,
    }
