"""Workloads whose prompts are the turns of one conversation, and what stands before each turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from pytest_specdec.records import CellKey, Generation, Mode, Prompt, Workload
from pytest_specdec.server.client import Client

if TYPE_CHECKING:
    from pytest_specdec.measure.runner import Bench

__all__ = ["SCRIPT_BLOCK", "Script"]

SCRIPT_BLOCK = -1  # generations that only give the text; no pair is made of them
_BASE = "base"


class Script:
    """The texts that are sent for prompts.

    Of a workload that is no conversation they are the prompts' own. Of a conversation each turn stands behind the turns
    before it and the answers that ``base`` gave to them, once per run, so that all arms see the same context and a
    fork at a near-tie in one turn does not give the next one another text. Where replies are sampled each arm follows
    on its own, and each block is a conversation of its own. ``generations`` is what each cell has so far.
    """

    def __init__(self, workload: Workload, bench: Bench, generations: Mapping[CellKey, list[Generation]]) -> None:
        self._workload = workload
        self._bench = bench
        self._generations = generations
        self._key = CellKey(Mode.SPEED, workload.name, _BASE)
        known = generations.get(self._key) or list(bench.ledger.generations(self._key))
        self._answers = {g.prompt_id: g.text for g in known if g.block == SCRIPT_BLOCK}

    def prepare(self, prompt: Prompt) -> None:
        """Let ``base`` answer all turns before this one, where others read that and it has not.

        Raises ServerError or ClientError.
        """
        if not self._workload.conversation or self._workload.sampled:
            return
        unanswered = [turn for turn in self._before(prompt) if turn.id not in self._answers]
        if unanswered:
            self._converse(unanswered)

    def text(self, prompt: Prompt, key: CellKey, block: int) -> str:
        """What ``key`` is sent for this prompt in this block, after all turns before it."""
        if not self._workload.conversation:
            return prompt.text
        if self._workload.sampled:
            return self._context(prompt, {g.prompt_id: g.text for g in self._generations[key] if g.block == block})
        return self._context(prompt, self._answers)

    def _context(self, prompt: Prompt, answers: Mapping[str, str]) -> str:
        said = (turn.text + answers.get(turn.id, "") + self._workload.turn_end for turn in self._before(prompt))
        return "".join(said) + prompt.text

    def _before(self, prompt: Prompt) -> Iterator[Prompt]:
        return takewhile(lambda turn: turn.id != prompt.id, self._workload.prompts)

    def _converse(self, turns: Sequence[Prompt]) -> None:
        arm, servers = self._bench.arm(_BASE), self._bench.servers_of(self._key.build)
        with servers.running(arm, Mode.SPEED) as server, Client(server, self._bench.stall_timeout_s) as client:
            for prompt in turns:
                number = self._workload.prompts.index(prompt)
                self._bench.progress(f"{self._workload.name}: base answers turn {number + 1}")
                generation = client.generate(
                    self._context(prompt, self._answers), self._workload.request, prompt_id=prompt.id, cell=self._key,
                    block=SCRIPT_BLOCK, ordinal=number,
                )  # fmt: skip
                self._bench.ledger.append(generation)
                self._answers[prompt.id] = generation.text
