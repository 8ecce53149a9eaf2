"""Whatever is asked, in whatever order and slot: the tokens of the target alone, and counters that add up."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given

from pytest_specdec.asking import LiveArm
from pytest_specdec.comparing import Lossless
from pytest_specdec.judge import Judge
from pytest_specdec.properties import Ask, Scenario, curl, problem_of, scenarios
from pytest_specdec.records import Generation
from pytest_specdec.server.client import Client

# Each is one server start: block drafter and lookups, other widths and floors, lookups as short as they can be.
ARMS = ["dflash2", "dflash2+nmin3@5", "dflash2+mod+k4v+short", "dflash2+pmin85@15", "draft", "self", "ngram+short"]
SLOTS = 2

_FORGET = {"temperature": 0.0, "cache_prompt": False, "n_predict": 1}


@pytest.mark.claim(
    "lossless.any_request", source="upstream reports", kind="lossless", each=ARMS, over="base",
    server_flags={"parallel": SLOTS},
)  # fmt: skip
def test_any_request(arm: str, server: LiveArm, claim: Judge, lossless: Lossless) -> None:
    alone, drafted, noises = server.start("base"), server.start(arm), lossless.noise
    expected = _remembering(lambda ask: _alone(alone, ask))
    command = server.command(arm)
    tried = [0, 0]

    @lossless.property_settings
    @given(scenarios(SLOTS))
    def replies_are_those_of_the_target_alone(scenario: Scenario) -> None:
        wanted = [expected(ask) for ask in scenario.asks]
        got = _all(drafted, scenario)
        tried[0] += 1
        tried[1] += sum(reply.timings.draft_n for reply in got)
        for ask, base, reply in zip(scenario.asks, wanted, got, strict=True):
            # What was cached, or shared a batch with another slot, was not computed as in a cold request alone.
            mixed = scenario.at_once or ask.request["cache_prompt"]
            problem = problem_of(base, reply, noises.large_batch if mixed else noises.verification)
            if problem is not None:
                reason, words = problem
                claim.counterexample(reason, words, f"{command}\n{curl(scenario.asks, scenario.at_once)}", ask.prompt)

    claim.examples(replies_are_those_of_the_target_alone)
    claim.holds(
        tried[1] > 0, measured=f"{tried[0]} scenarios, {tried[1]} tokens drafted", expected="the base's replies to each"
    )


def _alone(client: Client, ask: Ask) -> Generation:
    """Cold and in one slot, whatever the scenario says: what the reply ought to be."""
    return client.stream(ask.prompt, {**ask.body, "cache_prompt": False, "id_slot": 0, "n_probs": 2})


def _all(client: Client, scenario: Scenario) -> list[Generation]:
    for slot in range(SLOTS):  # so that an example does not depend on the one before
        client.stream(".", {**_FORGET, "id_slot": slot})
    if not scenario.at_once:
        return [client.stream(ask.prompt, ask.body) for ask in scenario.asks]
    with ThreadPoolExecutor(len(scenario.asks)) as pool:
        return list(pool.map(lambda ask: client.stream(ask.prompt, ask.body), scenario.asks))


def _remembering(ask_base: Callable[[Ask], Generation]) -> Callable[[Ask], Generation]:
    """Shrinking asks the same again and again."""
    known: dict[str, Generation] = {}

    def remembered(ask: Ask) -> Generation:
        key = repr((ask.prompt, sorted(ask.request.items(), key=str)))
        if key not in known:
            known[key] = ask_base(ask)
        return known[key]

    return remembered
