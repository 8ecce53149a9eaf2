"""Scores the base's own text again in chunks as wide as a verification, to see how far its figures move.

The server gives log probabilities only of what it generates. So each position is asked for with its whole context as
the prompt; the context before it lies in the prompt cache up to one chunk, and the server computes just that chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from pytest_specdec.lossless.noise import Noise, Noises, Rescored, noise_from
from pytest_specdec.measure.ledger import Ledger, plain
from pytest_specdec.records import Arm, Generation, Json, Workload
from pytest_specdec.server.client import Client

__all__ = ["POSITIONS", "measure_noise", "prompt_tokens", "remembered_noise", "verify_widths"]

POSITIONS = 2150
_WHOLE_POSITIONS = 210  # each costs a whole prompt
_KEPT = "noise"

# One slot, so that the chunks of one text follow each other in one cache; a few more tokens than two, so that the
# base's pair is still listed when rounding moved a third one.
_REQUEST: Mapping[str, Json] = {
    "temperature": 0.0, "cache_prompt": True, "n_predict": 1, "n_probs": 5, "return_tokens": True, "id_slot": 0,
    "response_fields": ["tokens", "timings", "completion_probabilities"],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Text:
    """One prompt's tokens and the base's reply to it."""

    prompt: tuple[int, ...]
    reply: Generation


def verify_widths(arms: Sequence[Arm]) -> tuple[int, ...]:
    """The full widths of these arms' verifications: each drafter's longest draft and the token before it."""
    drafts = [arm.n_max for arm in arms if arm.n_max is not None]
    drafts += [
        int(value) for arm in arms for flag, value in arm.flags.items() if flag.endswith(("-size-m", "-mod-n-max"))
    ]
    return tuple(sorted({n + 1 for n in drafts if n > 0}))


def remembered_noise(ledger: Ledger, measure: Callable[[], Noises]) -> Noises:
    """The noise that this run has already measured, else what ``measure`` says now."""
    with ledger.locked(_KEPT):
        kept = ledger.kept(_KEPT)
        if kept is not None:
            return Noises(**{name: Noise(**{**row, "widths": tuple(row["widths"])}) for name, row in kept.items()})
        noises = measure()
        ledger.keep(_KEPT, plain(noises))
        return noises


def measure_noise(
    pool: Executor, clients: Sequence[Client], workload: Workload, replies: Sequence[Generation], widths: Sequence[int]
) -> Noises:
    """Both noises on live servers without a drafter, over positions spread over all its ``replies``.

    The servers are alike and share the texts; each is asked one thing at a time, by a thread of ``pool``.
    """
    texts = [
        _Text(tuple(prompt_tokens(clients[0], prompt.text)), reply)
        for prompt, reply in zip(workload.prompts, replies, strict=True)
        if reply.alternatives and reply.complete
    ]
    lengths = [len(text.reply.tokens) for text in texts]
    passes = [(width, offset) for width in widths for offset in _offsets(width, lengths, POSITIONS / len(widths))]
    each = math.ceil(_WHOLE_POSITIONS / max(len(texts), 1))
    shares = [texts[number :: len(clients)] for number in range(len(clients))]
    scored = list(pool.map(lambda client, share: _scored(client, share, passes, each), clients, shares))
    return Noises(
        _noise([row for chunked, _ in scored for row in chunked], widths),
        _noise([row for _, whole in scored for row in whole], ()),
    )


def _scored(
    client: Client, texts: Sequence[_Text], passes: Sequence[tuple[int, int]], each: int
) -> tuple[list[Rescored | None], list[Rescored | None]]:
    """The positions of these texts scored in chunks, and ``each`` of every text as a whole prompt."""
    chunked = [row for text in texts for width, offset in passes for row in _pass(client, text, width, offset)]
    return chunked, [row for text in texts for row in _whole(client, text, each)]


def _noise(rows: Sequence[Rescored | None], widths: Sequence[int]) -> Noise:
    scored = [row for row in rows if row is not None]
    return noise_from(scored, len(rows) - len(scored), widths)


def prompt_tokens(client: Client, text: str) -> list[int]:
    """What the server makes of a prompt, its opening token included."""
    answer = client.post("/tokenize", {"content": text, "add_special": True, "parse_special": True})
    return [int(token) for token in answer["tokens"]]


def _offsets(width: int, lengths: Sequence[int], wanted: float) -> list[int]:
    """As many passes as score ``wanted`` positions, at most all; each scores every ``width``-th but the first."""
    in_one = sum(max(0, math.ceil(length / width) - 1) for length in lengths)
    passes = max(1, min(width, math.ceil(wanted / max(in_one, 1))))
    return [number * width // passes for number in range(passes)]


def _pass(client: Client, text: _Text, width: int, offset: int) -> Iterator[Rescored | None]:
    """Positions offset + width, offset + 2 width, …, at one chunk each; those before the first are filled in.

    Passes over one text follow each other, the one without an offset first.
    """
    positions = range(offset, len(text.reply.tokens), width)
    if len(positions) < 3:  # one prompt alone, behind what is filled in, is answered in another shape
        return
    start, *ends = positions
    # Without an offset cold, as the base read it: the last token of a prompt that is cached is computed again alone,
    # and its rounding would be in every chunk behind it.
    fill = {**_REQUEST, "cache_prompt": offset > 0, "prompt": [*text.prompt, *text.reply.tokens[:start]]}
    client.post("/completion", fill, prompt_id=text.reply.prompt_id)
    prompts = [[*text.prompt, *text.reply.tokens[:end]] for end in ends]
    answers = client.post("/completion", {**_REQUEST, "prompt": prompts}, prompt_id=text.reply.prompt_id)
    for end, answer in zip(ends, answers, strict=True):
        # Where the cache was not what it should be, this was no chunk of that width and says nothing.
        if int(answer["timings"]["prompt_n"]) == width:
            yield _rescored(text.reply, end, answer)


def _whole(client: Client, text: _Text, wanted: int) -> Iterator[Rescored | None]:
    """Some positions, each with its whole context as one cold prompt."""
    length = len(text.reply.tokens)
    ends = range(1, length, max(1, length // wanted))
    if len(ends) < 2:
        return
    prompts = [[*text.prompt, *text.reply.tokens[:end]] for end in ends]
    asked = {**_REQUEST, "cache_prompt": False, "prompt": prompts}
    for end, answer in zip(ends, client.post("/completion", asked, prompt_id=text.reply.prompt_id), strict=True):
        yield _rescored(text.reply, end, answer)


def _rescored(reply: Generation, position: int, answer: Mapping[str, Any]) -> Rescored | None:
    alternative, chosen = reply.alternatives[position], reply.tokens[position]
    listed = {int(row["id"]): float(row["logprob"]) for row in answer["completion_probabilities"][0]["top_logprobs"]}
    if chosen not in listed or alternative.token not in listed or not math.isfinite(alternative.gap_nats):
        return None
    return Rescored(
        prompt_id=reply.prompt_id,
        position=position,
        gap_nats=alternative.gap_nats,
        chunk_gap_nats=listed[chosen] - listed[alternative.token],
        flipped=int(answer["tokens"][0]) != chosen,
    )
