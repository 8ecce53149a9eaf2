"""Asks live servers again where two replies have parted: the drafted arm past a tie, the base for its own gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack

from pytest_specdec.measure.rescoring import prompt_tokens
from pytest_specdec.records import Generation, Json, Prompt
from pytest_specdec.server.client import Client

__all__ = ["LiveReplay"]


# What makes another token the best one than the raw ranking says.
_RESHAPING = ("logit_bias", "repeat_penalty", "frequency_penalty", "presence_penalty", "dry_multiplier")
_CONSTRAINTS = ("grammar", "json_schema")
_LISTED = 64


class LiveReplay:
    """Starts a server of the arm, or of the base, when it is first needed and keeps it until ``close``."""

    def __init__(
        self,
        open_client: Callable[[str], AbstractContextManager[Client]],
        arm: str,
        base: str,
        requests: Mapping[str, tuple[Prompt, Mapping[str, Json]]],
        width: int,
    ) -> None:
        self._open = open_client
        self._arm = arm
        self._base = base
        self._requests = requests
        self._width = width
        self._stack = ExitStack()
        self._clients: dict[str, Client] = {}

    def __enter__(self) -> LiveReplay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what was started."""
        self._clients.clear()
        self._stack.close()

    def go_on(self, base: Generation, start: int) -> Generation:
        """The drafted arm's reply after the base's text before ``start``.

        That text goes into its cache in chunks no wider than a verification, behind a prompt computed in one batch, so
        that it rounds as it did when it was generated.
        """
        prompt, request = self._requests[base.prompt_id]
        client = self._client(self._arm)
        prompt_part = prompt_tokens(client, prompt.text)
        context = [*prompt_part, *base.tokens[:start]]
        steps = [context[:end] for end in range(len(prompt_part), len(context), self._width)]
        cached = {"cache_prompt": True, "id_slot": 0}
        client.post("/completion", {**cached, "prompt": steps, "n_predict": 1, "temperature": 0.0})
        rest = {**request, **cached, "n_predict": len(base.tokens) - start}
        return client.stream(context, rest, prompt_id=base.prompt_id)

    def gap_nats(self, base: Generation, position: int, first: int, second: int) -> float | None:
        """The base's distance between two tokens there, biases and penalties applied, constraints left out.

        A constraint only removes tokens, and both were allowed, or they would not have been chosen.
        """
        prompt, request = self._requests[base.prompt_id]
        if not any(request.get(name) for name in (*_RESHAPING, *_CONSTRAINTS)):
            return None
        client = self._client(self._base)
        context = [*prompt_tokens(client, prompt.text), *base.tokens[:position]]
        kept = {name: value for name, value in request.items() if name in _RESHAPING}
        asked: dict[str, Json] = {
            **kept, "prompt": context, "n_predict": 1, "n_probs": _LISTED, "post_sampling_probs": True,
            "temperature": 1.0, "samplers": ["penalties", "temperature"], "cache_prompt": False,
        }  # fmt: skip
        answer = client.post("/completion", asked, prompt_id=base.prompt_id)
        listed = {int(row["id"]): float(row["prob"]) for row in answer["completion_probabilities"][0]["top_probs"]}
        if not listed.get(first) or not listed.get(second):
            return None
        return math.log(listed[first]) - math.log(listed[second])

    def _client(self, arm: str) -> Client:
        if arm not in self._clients:
            self._clients[arm] = self._stack.enter_context(self._open(arm))
        return self._clients[arm]
