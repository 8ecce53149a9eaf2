"""A server with a drafter stays alive from one request to the next, and with two at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_specdec.asking import LiveArm
from pytest_specdec.judge import Judge
from pytest_specdec.records import Generation, Reason
from pytest_specdec.server.client import Client

PROMPTS = [
    "def average_weight(items):\n    total = 0.0\n",
    "There is a story about the harbor wall that is told only in winter.",
    "class Store:\n    def __init__(self):\n        self.items = []\n",
]
REQUEST = {"temperature": 0.0, "cache_prompt": False, "n_predict": 48}


@pytest.mark.claim("survives.requests", source="upstream reports", each="judged")
def test_a_second_and_a_third_request(server: LiveArm, claim: Judge) -> None:
    client = server.start()
    replies = [client.generate(prompt, REQUEST) for prompt in PROMPTS]
    _all_complete(claim, replies, client, "one after the other")


@pytest.mark.claim("survives.two_slots", source="upstream reports", each="judged", server_flags={"parallel": 2})
def test_two_slots_at_once(server: LiveArm, claim: Judge) -> None:
    client = server.start()
    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(lambda prompt: client.stream(prompt, REQUEST), PROMPTS[:2]))
    _all_complete(claim, replies, client, "at once, in two slots")


def _all_complete(claim: Judge, replies: list[Generation], client: Client, how: str) -> None:
    complete = [reply for reply in replies if reply.timings.predicted_n == len(reply.tokens) > 0]
    alive = client.get("/health").status_code == 200
    claim.holds(
        len(complete) == len(replies) and alive,
        measured=f"{len(complete)} of {len(replies)} replies complete, server {'healthy' if alive else 'not healthy'}",
        expected=f"{len(replies)} complete replies {how}",
        otherwise=Reason.SERVER_DIED,
    )
