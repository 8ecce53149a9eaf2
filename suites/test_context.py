"""At the edge of the context, past it, and with more than one reply in it at a time."""

import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from pytest_specdec.asking import LiveArm
from pytest_specdec.comparing import Lossless
from pytest_specdec.judge import Judge
from pytest_specdec.records import Generation, Json, Reason
from pytest_specdec.server.client import Client

from .texts import CODE, GREEDY, GREEDY_LISTED, LONG, PROSE

_SMALL = 512
_TO_THE_EDGE = {"n_predict": _SMALL}
# The least that llama-server takes, and a reply in which it shifts several times.
_LEAST = 256
_PAST_THE_EDGE = 3 * _LEAST // 2
_STATES = tempfile.gettempdir()


@pytest.mark.claim(
    "context.edge", source="upstream reports", kind="lossless", each=["judged", "self"], over="base",
    server_flags={"ctx-size": _SMALL, "no-context-shift": True},
)  # fmt: skip
def test_up_to_the_edge(arm: str, server: LiveArm, claim: Judge, lossless: Lossless) -> None:
    def base_play(client: Client) -> tuple[list[str], list[Generation]]:
        texts = _close_to_the_edge(client)
        return texts, _up_to_the_edge(client, texts, GREEDY_LISTED)

    texts, base = server.remembered("base", base_play)
    replies = _up_to_the_edge(server.start(arm), texts)
    pairs = list(zip(base, replies, strict=True))
    # As far as both go: where they end is another question.
    shorter = [min(len(mine.tokens), len(theirs.tokens)) for mine, theirs in pairs]
    lossless.same_replies(_cut(base, shorter), _cut(replies, shorter))
    ends = [[(len(g.tokens), str(g.stop_type), g.truncated) for g in side] for side in (base, replies)]
    claim.holds(
        ends[0] == ends[1],
        measured=f"ends {ends[1]}" + _what_is_missing(base, replies),
        expected=f"the base's {ends[0]} (tokens, stop, truncated)",
        otherwise=Reason.LENGTH_DIFFERS,
    )


@pytest.mark.claim(
    "context.shift", source="llama.cpp #21815", kind="lossless", each=["judged", "self"], over="base",
    server_flags={"ctx-size": _LEAST, "context-shift": True},
)  # fmt: skip
def test_past_the_edge_with_context_shift(arm: str, server: LiveArm, claim: Judge, lossless: Lossless) -> None:
    def play(client: Client, greedy: Mapping[str, Json] = GREEDY) -> list[Generation]:
        past = client.stream(CODE, {**greedy, "n_predict": _PAST_THE_EDGE}, prompt_id="code")
        return [past, client.stream(PROSE, greedy, prompt_id="after")]

    base = server.remembered("base", lambda client: play(client, GREEDY_LISTED))
    replies = play(server.start(arm))
    claim.holds(
        len(replies[0].tokens) == _PAST_THE_EDGE,
        measured=f"{len(replies[0].tokens)} tokens in a context of {_LEAST}",
        expected=f"{_PAST_THE_EDGE} tokens",
        otherwise=Reason.LENGTH_DIFFERS,
    )
    lossless.same_replies(base, replies)


@pytest.mark.claim(
    "context.slots", source="upstream reports", kind="lossless", each="judged", over="base",
    server_flags={"parallel": 2},
)  # fmt: skip
def test_parallel_slots_of_unequal_length(arm: str, server: LiveArm, lossless: Lossless) -> None:
    asked = [("long", LONG, 64), ("short", PROSE, 16), ("code", CODE, 40), ("again", PROSE, 32)]

    def ask(client: Client, number: int, greedy: Mapping[str, Json] = GREEDY) -> Generation:
        name, text, length = asked[number]
        return client.stream(text, {**greedy, "n_predict": length}, prompt_id=name)

    def one_by_one(client: Client) -> list[Generation]:
        return [ask(client, number, GREEDY_LISTED) for number in range(len(asked))]

    base, client = server.remembered("base", one_by_one), server.start(arm)
    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(lambda number: ask(client, number), range(len(asked))))
    lossless.same_replies(base, replies, large_batches=True)


@pytest.mark.claim(
    "context.restored", source="llama.cpp #28619", kind="lossless", each="judged", over="base",
    server_flags={"slot-save-path": _STATES},
)  # fmt: skip
def test_a_slot_that_was_saved_and_restored(arm: str, server: LiveArm, lossless: Lossless) -> None:
    def play(client: Client, greedy: Mapping[str, Json] = GREEDY) -> list[Generation]:
        warm = {**greedy, "cache_prompt": True, "id_slot": 0}
        state = Path(_STATES) / f"specdec-{uuid4().hex}.slot"
        try:
            first = client.stream(CODE, warm, prompt_id="before")
            client.post("/slots/0?action=save", {"filename": state.name})
            between = client.stream(PROSE, warm, prompt_id="between")
            client.post("/slots/0?action=restore", {"filename": state.name})
            return [first, between, client.stream(CODE + first.text, warm, prompt_id="restored")]
        finally:
            state.unlink(missing_ok=True)

    base = server.remembered("base", lambda client: play(client, GREEDY_LISTED))
    replies = play(server.start(arm))
    # Behind a tie in the first reply the restored prompt is another text.
    comparable = len(base) if base[0].tokens == replies[0].tokens else 2
    lossless.same_replies(base[:comparable], replies[:comparable])


def _close_to_the_edge(client: Client) -> list[str]:
    """Prompts that end some tokens before the edge, each one token further, in text that drafters know by then."""
    reply = client.stream(CODE * 2, {**GREEDY, **_TO_THE_EDGE}, prompt_id="long")
    return [CODE * 2 + "".join(reply.pieces[:-left]) for left in (40, 39, 38)]


def _up_to_the_edge(client: Client, texts: list[str], greedy: Mapping[str, Json] = GREEDY) -> list[Generation]:
    asked = {**greedy, **_TO_THE_EDGE}
    return [client.generate(text, asked, prompt_id=f"edge-{number}") for number, text in enumerate(texts)]


def _what_is_missing(base: list[Generation], replies: list[Generation]) -> str:
    """How much, against the longest draft that the target accepted whole in that reply."""
    missing = [len(mine.tokens) - len(theirs.tokens) for mine, theirs in zip(base, replies, strict=True)]
    if not any(missing):
        return ""
    drafts = [sum(count > 0 for count in reply.counted.accepted_per_position) for reply in replies]
    within = all(0 <= lost <= draft for lost, draft in zip(missing, drafts, strict=True))
    return "; missing at most what one draft brought" if within else f"; missing {missing}, more than a draft brought"


def _cut(replies: list[Generation], lengths: list[int]) -> list[Generation]:
    return [replace(reply, tokens=reply.tokens[:length]) for reply, length in zip(replies, lengths, strict=True)]
