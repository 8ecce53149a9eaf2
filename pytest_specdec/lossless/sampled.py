"""Do equal seeds give equal tokens at a temperature? Rounding moves the edges between the tokens of a random draw."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_specdec.lossless.fork import first_fork
from pytest_specdec.lossless.noise import Noise
from pytest_specdec.records import Finding, Generation, Reason, Status

__all__ = ["judge_sampled"]


def judge_sampled(base: Sequence[Generation], other: Sequence[Generation], noise: Noise) -> Finding:
    """As many replies may part as rounding explains: a draw falls between a moved edge and its old place.

    The chance of that is at most the mean change of a gap, per token; three standard deviations above it are allowed.
    A drafter that draws from the generator for itself parts almost at once in every reply.
    """
    forks = [fork for mine, theirs in zip(base, other, strict=True) if (fork := first_fork(mine, theirs)) is not None]
    tokens = sum(len(generation.tokens) for generation in base)
    by_rounding = tokens * noise.mean_nats
    allowed = math.floor(by_rounding + 3 * math.sqrt(by_rounding))
    expected = f"the tokens that the same seeds give without drafts; rounding explains {allowed} differences"
    evidence = {"replies": len(base), "tokens": tokens, "forks": [[f.prompt_id, f.position] for f in forks]}
    if len(forks) <= allowed:
        measured = f"{len(base)} replies, {tokens} tokens, {len(forks)} differ"
        return Finding(Status.PASS, Reason.HELD, measured, expected, evidence=evidence)
    first = forks[0]
    measured = (
        f"{len(forks)} of {len(base)} replies differ; {first.prompt_id} at token {first.position}: "
        f"token {first.other_token} for token {first.base_token}"
    )
    detail = "\n".join(
        f"{f.prompt_id} at token {f.position}: {f.other_token} for {f.base_token}, after {f.context!r}" for f in forks
    )
    return Finding(Status.FAIL, Reason.TOKENS_DIFFER, measured, expected, detail, evidence=evidence)
