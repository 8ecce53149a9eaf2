"""The positions at which a drafted reply leaves the base's."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from pytest_specdec.records import Generation

__all__ = ["Fork", "first_fork"]

_CONTEXT_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Fork:
    """Token ids are None where that side had already ended.

    ``second_token`` and ``gap_nats`` are the base's second choice at this position and its distance to the first, both
    None where the base gave no alternatives; ``context`` is the end of the base's text before the position.
    """

    prompt_id: str
    position: int
    base_token: int | None
    other_token: int | None
    second_token: int | None
    gap_nats: float | None
    context: str

    def is_tie(self, bound_nats: float) -> bool:
        """Whether rounding explains it: the other token is the base's second choice, no further than the noise.

        Under a constraint the base may have chosen another than the best: that gap is negative, and as far from a tie.
        """
        return self.is_second_choice and self.gap_nats is not None and abs(self.gap_nats) <= bound_nats

    @property
    def is_second_choice(self) -> bool:
        """Whether the other token is the one that the base would have taken next."""
        return None not in (self.base_token, self.other_token) and self.other_token == self.second_token


def first_fork(base: Generation, other: Generation, start: int = 0) -> Fork | None:
    """None when the tokens are the same to the end. ``other`` begins at the base's position ``start``."""
    for position, (mine, theirs) in enumerate(zip_longest(base.tokens[start:], other.tokens), start):
        if mine != theirs:
            return _fork(base, position, mine, theirs)
    return None


def _fork(base: Generation, position: int, mine: int | None, theirs: int | None) -> Fork:
    alternative = base.alternatives[position] if position < len(base.alternatives) else None
    return Fork(
        prompt_id=base.prompt_id,
        position=position,
        base_token=mine,
        other_token=theirs,
        second_token=alternative.token if alternative else None,
        gap_nats=alternative.gap_nats if alternative else None,
        context=base.text_before(position)[-_CONTEXT_CHARACTERS:],
    )
