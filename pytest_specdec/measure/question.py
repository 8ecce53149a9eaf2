"""What one claim asks of a panel, and how far the evidence so far answers it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_specdec.measure.rows import Row, prompt_of, rows_of
from pytest_specdec.records import Cell, CellKey, Figure
from pytest_specdec.stats.decision import Decision, Outcome, decide
from pytest_specdec.stats.rule import LEAST_PAIRS, Rule

__all__ = ["BLOCKS_PER_ROUND", "Answer", "Question"]

_HOPELESS_ROUNDS = 2  # before them a few void pairs are no pattern
_LEAST_VALID = 0.25  # share of what is tried that must be valid for a panel to go on
BLOCKS_PER_ROUND = 2  # forth and back: ABC CBA


@dataclass(frozen=True, slots=True)
class Question:
    """One claim's contrast, or ratio of two contrasts, and what it is compared with.

    ``anchor`` is the expected log ratio: one number, or one per prompt. None where there is nothing to compare with
    and ``wanted`` pairs are to be tried for the record. Without ``sides`` it asks for ``cells`` alone, ``wanted``
    prompts of each. ``exact``: tokens per cycle are exact (greedy decoding), so
    that with one number they shift the anchor and are no noise.
    """

    claim: str
    sides: tuple[tuple[CellKey, CellKey], ...]
    figure: Figure
    prompts: Mapping[str, str]
    rule: Rule
    anchor: float | Mapping[str, float] | None = None
    exact: bool = True
    wanted: int = 0
    alone: frozenset[CellKey] = frozenset()

    @property
    def cells(self) -> frozenset[CellKey]:
        """Every cell that it needs."""
        return self.alone | {key for side in self.sides for key in side}

    def answer(self, cells: Mapping[CellKey, Cell], rounds: int) -> Answer:
        """What is known after ``rounds`` whole rounds."""
        if not self.sides:
            fewest = min(len(cells[key].generations) for key in self.cells)
            return Answer(self, [], [], None, fewest < self.wanted)
        rows = [
            row
            for row in rows_of(self.sides, cells, self.figure, self.prompts)
            if row.block < rounds * BLOCKS_PER_ROUND and self._expects(row)
        ]
        looks, blocks = _round_ends(rows, rounds), [row.block for row in rows]
        values = self._values(rows)
        if self.anchor is None:
            return Answer(self, rows, values, None, self._attempted(cells) < self.wanted)
        decision = decide(values, self.rule, looks, blocks)
        return Answer(
            self, rows, values, decision, self._may_go_on(cells, rows, rounds) and decision.outcome is Outcome.OPEN
        )

    @property
    def most_pairs(self) -> int:
        """After that many it is no longer open."""
        return self.wanted if self.anchor is None else max(LEAST_PAIRS, self.rule.cap)

    def _may_go_on(self, cells: Mapping[CellKey, Cell], rows: Sequence[Row], rounds: int) -> bool:
        """Where guards void most of what is measured, as on a device that others use, more of it is no evidence."""
        if rounds < _HOPELESS_ROUNDS:
            return True
        return len(rows) >= _LEAST_VALID * self._attempted(cells, rounds) > 0

    def _attempted(self, cells: Mapping[CellKey, Cell], rounds: int | None = None) -> int:
        """Prompts that every cell has been asked, whether or not a guard voided the answer: a record is one pass."""
        end = math.inf if rounds is None else rounds * BLOCKS_PER_ROUND
        return min(
            sum(prompt_of(g.prompt_id) in self.prompts and g.block < end for g in cells[key].generations)
            for key in self.cells
        )

    def _expects(self, row: Row) -> bool:
        """A prompt that is not in the record has nothing to be compared with."""
        return not isinstance(self.anchor, Mapping) or prompt_of(row.prompt) in self.anchor

    def _values(self, rows: Sequence[Row]) -> list[float]:
        """Anchored log ratios, as :func:`pytest_specdec.stats.contrast.anchored` defines them."""
        if self.anchor is None:
            return [row.value for row in rows]
        if isinstance(self.anchor, Mapping):
            return [row.value - self.anchor[prompt_of(row.prompt)] for row in rows]
        if not self.exact:
            return [row.value - self.anchor for row in rows]
        part = exact_part(rows)
        return [row.value - row.exact - (self.anchor - part) for row in rows]


@dataclass(frozen=True, slots=True)
class Answer:
    """The evidence for one question: its rows, the anchored values, and the decision where there is one to make."""

    question: Question
    rows: Sequence[Row]
    values: Sequence[float]
    decision: Decision | None
    open: bool


def exact_part(rows: Sequence[Row]) -> float:
    """Mean over distinct prompts of the exact part; 0 without rows."""
    grouped: dict[str, list[float]] = {}
    for row in rows:
        grouped.setdefault(prompt_of(row.prompt), []).append(row.exact)
    means = [math.fsum(found) / len(found) for found in grouped.values()]
    return math.fsum(means) / len(means) if means else 0.0


def _round_ends(rows: Sequence[Row], rounds: int) -> list[int]:
    """How many rows there were at the end of each round."""
    ends = (sum(row.block < (number + 1) * BLOCKS_PER_ROUND for row in rows) for number in range(rounds))
    return sorted(set(ends))
