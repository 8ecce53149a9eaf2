"""Workloads whose prompts are the turns of one conversation: every arm reads what the target alone has answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_specdec.records import CellKey, Generation, Mode, Prompt, Workload
from pytest_specdec.server.client import Client

if TYPE_CHECKING:
    from pytest_specdec.measure.runner import Bench

__all__ = ["SCRIPT_BLOCK", "Script"]

SCRIPT_BLOCK = -1  # generations that only give the text; no pair is made of them
_BASE = "base"


class Script:
    """The prompts as they are sent.

    Of a workload that is no conversation they are sent as they are. Of a conversation each turn stands behind the turns
    before it and the answers that ``base`` gave to them, once per run, so that all arms see the same context and a
    fork at a near-tie in one turn does not give the next one another text.
    """

    def __init__(self, workload: Workload, bench: Bench, generations: dict[CellKey, list[Generation]]) -> None:
        self._workload = workload
        self._bench = bench
        self._key = CellKey(Mode.SPEED, workload.name, _BASE)
        known = generations.get(self._key) or list(bench.ledger.generations(self._key))
        self._answers = {g.prompt_id: g.text for g in known if g.block == SCRIPT_BLOCK}

    def prompts(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """These prompts with their context. Raises ServerError or ClientError when ``base`` gives none."""
        if not self._workload.conversation:
            return list(prompts)
        if len(self._answers) < len(self._workload.prompts):
            self._converse()
        contexts = self._contexts()
        return [replace(prompt, text=contexts[prompt.id]) for prompt in prompts]

    def _contexts(self) -> dict[str, str]:
        said, contexts = "", {}
        for prompt in self._workload.prompts:
            contexts[prompt.id] = said + prompt.text
            said = contexts[prompt.id] + self._answers.get(prompt.id, "") + self._workload.turn_end
        return contexts

    def _converse(self) -> None:
        arm, servers = self._bench.arm(_BASE), self._bench.servers_of(self._key.build)
        with servers.running(arm, Mode.SPEED) as server, Client(server, self._bench.stall_timeout_s) as client:
            for number, prompt in enumerate(self._workload.prompts):
                if prompt.id in self._answers:
                    continue
                self._bench.progress(f"speed on {self._workload.name}: base answers turn {number + 1}")
                generation = client.generate(
                    self._contexts()[prompt.id], self._workload.request, prompt_id=prompt.id, cell=self._key,
                    block=SCRIPT_BLOCK, ordinal=number,
                )  # fmt: skip
                self._bench.ledger.append(generation)
                self._answers[prompt.id] = generation.text
