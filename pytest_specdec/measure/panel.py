"""The plan of a panel: which arms, in which order, on which prompts. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_specdec.measure.question import BLOCKS_PER_ROUND
from pytest_specdec.records import CellKey, Prompt, Workload

__all__ = ["Block", "Panel", "block_size", "plan_panel"]


@dataclass(frozen=True, slots=True)
class Block:
    """Some prompts, on every arm in turn. ``cells`` are in the order in which they are visited."""

    number: int
    cells: tuple[CellKey, ...]
    prompts: tuple[Prompt, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """All arms of one workload, measured together: ABC on one block of prompts, CBA on the next.

    A machine that slows down while it is measured then slows every arm alike: over a round of two blocks each arm has
    the same mean position. When the prompts are used up the blocks go on from the first; one prompt in one block is
    one pair.
    """

    workload: str
    cells: tuple[CellKey, ...]
    prompts: tuple[Prompt, ...]
    block_prompts: int

    def block(self, number: int) -> Block:
        """The block of that number, counted from 0."""
        per_pass = -(-len(self.prompts) // self.block_prompts)
        begin = number % per_pass * self.block_prompts
        cells = self.cells if number % 2 == 0 else self.cells[::-1]
        return Block(number, cells, self.prompts[begin : begin + self.block_prompts])

    def round(self, number: int) -> tuple[Block, ...]:
        """The blocks of one round, after which the open contrasts are decided."""
        return tuple(self.block(number * BLOCKS_PER_ROUND + i) for i in range(BLOCKS_PER_ROUND))

    def pairs_after(self, rounds: int) -> int:
        """Pairs that each contrast has by then, if no guard voids one."""
        return sum(self._pairs_of(number) for number in range(rounds))

    def rounds_for(self, pairs: int) -> int:
        """The fewest rounds that give at least ``pairs`` pairs."""
        rounds = got = 0
        while got < pairs:
            got += self._pairs_of(rounds)
            rounds += 1
        return rounds

    def _pairs_of(self, number: int) -> int:
        return sum(len(block.prompts) for block in self.round(number))


def block_size(workload: Workload, block_prompts: int) -> int:
    """Prompts per arm and server start, ``block_prompts`` where the workload does not say.

    A conversation that does not say is one block. It may be cut, since all arms read what ``base`` has answered: the
    first turn of a piece then reads all that was said before.
    """
    return workload.block_prompts or (len(workload.prompts) if workload.conversation else block_prompts)


def plan_panel(
    workload: str, cells: Sequence[CellKey], prompts: tuple[Prompt, ...], block_prompts: int, seed: int
) -> Panel:
    """The panel of ``cells``, in an order drawn with ``seed``, so that no arm is always the first."""
    order = sorted(set(cells))
    random.Random(f"{seed}/{workload}").shuffle(order)
    return Panel(workload, tuple(order), prompts, min(block_prompts, len(prompts)))
