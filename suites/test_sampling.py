"""At a temperature, drafted tokens are distributed as the target alone draws them."""

from collections import Counter
from collections.abc import Mapping

import pytest

from pytest_specdec.asking import LiveArm
from pytest_specdec.comparing import Lossless
from pytest_specdec.records import Effort, Generation, Json
from pytest_specdec.server.client import Client

from .texts import CODE, PROSE

# Drafters that draw and are verified by rejection, where the build has that, and one whose argmax is verified.
ARMS = ["dflash2", "self+probabilistic", "draft+probabilistic", "mtp+probabilistic"]
PROMPTS = {"prose": PROSE, "code": CODE[:-9]}
POSITIONS = (1, 2, 3)
SAMPLES = {Effort.SECONDS: 60, Effort.MINUTES: 600, Effort.NIGHTLY: 4000}
_CONTEXTS = 6
_LISTED = 100

# The target's own distribution, neither cut nor bent.
_PLAIN: Mapping[str, Json] = {
    "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "cache_prompt": True, "ignore_eos": True,
    "n_predict": POSITIONS[-1] + 1,
}  # fmt: skip

Replies = dict[str, list[Generation]]
Known = dict[tuple[str, tuple[int, ...]], dict[int, float]]


@pytest.mark.claim("sampling.distribution", source="upstream reports", kind="lossless", each=ARMS, over="base")
def test_the_distribution_of_sampled_tokens(arm: str, server: LiveArm, lossless: Lossless) -> None:
    samples = SAMPLES[lossless.effort]

    def play(client: Client) -> tuple[Replies, Known]:
        drawn = _draw(client, samples, first_seed=1)
        return drawn, _known(client, drawn)

    base, known = server.remembered("base", play)
    replies = _draw(server.start(arm), samples, first_seed=1 + samples)
    drafted = sum(reply.timings.draft_n for drawn in replies.values() for reply in drawn)
    lossless.same_distribution(_tokens(base), _tokens(replies), known, POSITIONS, drafted)


def _draw(client: Client, samples: int, first_seed: int) -> Replies:
    seeds = range(first_seed, first_seed + samples)
    return {name: [client.stream(text, {**_PLAIN, "seed": seed}) for seed in seeds] for name, text in PROMPTS.items()}


def _tokens(replies: Replies) -> dict[str, list[tuple[int, ...]]]:
    return {name: [reply.tokens for reply in drawn] for name, drawn in replies.items()}


def _known(client: Client, drawn: Replies) -> Known:
    """The target's own probabilities after the prefixes that it drew most often itself."""
    known: Known = {}
    for name, text in PROMPTS.items():
        prompt = client.post("/tokenize", {"content": text, "add_special": True})["tokens"]
        prefixes = Counter(reply.tokens[:position] for reply in drawn[name] for position in POSITIONS[:2])
        for prefix, _ in prefixes.most_common(_CONTEXTS):
            asked = {**_PLAIN, "prompt": [*prompt, *prefix], "n_predict": 1, "n_probs": _LISTED}
            answer = client.post("/completion", {**asked, "post_sampling_probs": True})
            listed = answer["completion_probabilities"][0]["top_probs"]
            known[name, prefix] = {int(row["id"]): float(row["prob"]) for row in listed if row["prob"] > 0}
    return known
