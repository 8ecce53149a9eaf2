"""How a reply travels does not change it: streamed or whole, cut off or to its end."""

from collections.abc import Mapping

import pytest

from pytest_specdec.asking import LiveArm
from pytest_specdec.comparing import Lossless
from pytest_specdec.judge import Judge
from pytest_specdec.records import Generation, Json, Reason
from pytest_specdec.server.client import Client

from .texts import CODE, GREEDY, GREEDY_LISTED, PROSE, WIDE

# Most of these characters are several tokens, so that drafts begin and end inside of them.
_WIDE_WORDS = {"grammar": 'root ::= ("naïve 漢字 🙂🙃 ")+', "ignore_eos": False, "n_predict": 96}
_WIDE_TEXT = "naïve 漢字 🙂🙃 "


@pytest.mark.claim("stream.same", source="upstream reports", each="judged")
def test_streamed_and_whole_replies_are_the_same(server: LiveArm, claim: Judge) -> None:
    client = server.start()
    differing = [
        text
        for text in (CODE, PROSE)
        if _parts(client.stream(text, GREEDY)) != _whole(client.post("/completion", _plain(text)))
    ]
    claim.holds(
        not differing,
        measured=f"{len(differing)} of 2 replies differ",
        expected="the same tokens and text, streamed or not",
        otherwise=Reason.TOKENS_DIFFER,
        detail="\n".join(f"after {text[-40:]!r}" for text in differing),
    )


@pytest.mark.claim("stream.characters", source="upstream reports", kind="lossless", each="judged", over="base")
def test_characters_split_over_drafts_arrive_whole(arm: str, server: LiveArm, claim: Judge, lossless: Lossless) -> None:
    def play(client: Client, greedy: Mapping[str, Json] = GREEDY) -> Generation:
        return client.stream(WIDE, {**greedy, **_WIDE_WORDS}, prompt_id="wide")

    base = server.remembered("base", lambda client: play(client, GREEDY_LISTED))
    reply = play(server.start(arm))
    broken = [piece for piece in reply.pieces if "\ufffd" in piece]
    claim.holds(
        not broken and (_WIDE_TEXT * 99).startswith(reply.text),
        measured=f"{len(reply.pieces)} pieces, {len(broken)} with a broken character, text {reply.text[:40]!r}…",
        expected="the text of the grammar in whole characters",
        otherwise=Reason.TOKENS_DIFFER,
        detail=f"broken pieces: {broken}",
    )
    lossless.same_replies([base], [reply])


@pytest.mark.claim("stream.cut_off", source="upstream reports", kind="lossless", each="judged", over="base")
def test_a_request_after_one_that_was_cut_off(arm: str, server: LiveArm, lossless: Lossless) -> None:
    def play(client: Client, greedy: Mapping[str, Json] = GREEDY) -> list[Generation]:
        replies = []
        for text, events in ((PROSE, 1), (CODE, 3), (PROSE, 0)):
            cut = {**greedy, "n_predict": 512}
            client.cut_off(text, cut, after_events=events, prompt_id=f"cut off after {events} events")
            replies.append(client.stream(CODE, {**greedy, "n_predict": 32}, prompt_id=f"after {events} events"))
        return replies

    base = server.remembered("base", lambda client: play(client, GREEDY_LISTED))
    lossless.same_replies(base, play(server.start(arm)))


def _plain(text: str) -> dict[str, Json]:
    return {**GREEDY, "prompt": text, "return_tokens": True}


def _parts(reply: Generation) -> tuple[list[int], str]:
    return list(reply.tokens), reply.text


def _whole(answer: Json) -> tuple[list[int], str]:
    return list(answer["tokens"]), str(answer["content"])
