"""What is wrong with one reply, and the commands that show it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable

from pytest_specdec.lossless import Noise, first_fork
from pytest_specdec.properties.scenarios import Ask
from pytest_specdec.records import Generation, Reason

__all__ = ["curl", "problem_of"]

_URL = "http://127.0.0.1:8080/completion"


def problem_of(base: Generation, other: Generation, noise: Noise) -> tuple[Reason, str] | None:
    """Why ``other`` is not the reply that the target alone gives; None when it is, or parts from it at a tie."""
    fork = first_fork(base, other)
    if fork is not None and fork.is_tie(noise.bound_nats):
        return _miscounted(base, other)
    if fork is not None:
        gap = "unknown" if fork.gap_nats is None else f"{fork.gap_nats:.3g} nats"
        words = f"token {fork.position} is {fork.other_token} for {fork.base_token} (gap {gap}), after {fork.context!r}"
        return Reason.TOKENS_DIFFER, words
    if (base.text, base.stop_type) != (other.text, other.stop_type):
        return Reason.TOKENS_DIFFER, f"{other.text!r} ({other.stop_type}) for {base.text!r} ({base.stop_type})"
    return _miscounted(base, other)


def _miscounted(base: Generation, reply: Generation) -> tuple[Reason, str] | None:
    counted = reply.timings
    # A stream leaves out the tokens that end inside a character, with a drafter and without.
    if base.complete and not reply.complete:
        return Reason.COUNTERS_DISAGREE, f"{len(reply.tokens)} tokens returned, {counted.predicted_n} counted"
    if not 0 <= counted.draft_n_accepted <= counted.draft_n:
        return Reason.COUNTERS_DISAGREE, f"{counted.draft_n_accepted} accepted of {counted.draft_n} drafted"
    return None


def curl(asks: Iterable[Ask], at_once: bool) -> str:
    """One command per request, ready to paste; requests that went out at once end in an ampersand."""
    asks = list(asks)
    behind = " &" if at_once and len(asks) > 1 else ""
    return "\n".join(_curl(ask) + behind for ask in asks)


def _curl(ask: Ask) -> str:
    body = json.dumps({**ask.body, "prompt": ask.prompt, "return_tokens": True}, ensure_ascii=True)
    return f"curl -s {_URL} -H 'Content-Type: application/json' -d {shlex.quote(body)}"
