"""How far the target's own figures move when it scores the same text in other batches: the noise of a tie.

There are two, and one may be a thousand times the other. A *verification* is a batch of a few tokens. Where a prompt is
cold and alone, that is all in which a drafted arm differs from the base. Where cached text, other slots or a prompt's
own batch come in, rows are computed in *large batches* that may use other kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_specdec.records import Generation

__all__ = ["BLIND_SHARE", "ENOUGH_POSITIONS", "Noise", "Noises", "Rescored", "blind_share", "noise_from"]

# Above this share of positions whose gap lies within the noise, the check would excuse too much to mean anything.
BLIND_SHARE = 0.05
# Fewer rescored positions than this say nothing about the largest of them.
ENOUGH_POSITIONS = 200

# Twice the largest change that was seen: the sample is finite, and what it missed is not much larger than what it saw.
_MARGIN = 2.0


@dataclass(frozen=True, slots=True)
class Rescored:
    """The base's gap at one position, and the same gap when the text was scored again in chunks.

    ``flipped`` says that the chunk's best token is another one.
    """

    prompt_id: str
    position: int
    gap_nats: float
    chunk_gap_nats: float
    flipped: bool

    @property
    def change_nats(self) -> float:
        """How far the gap moved."""
        return abs(self.chunk_gap_nats - self.gap_nats)


@dataclass(frozen=True, slots=True)
class Noise:
    """What was measured, over how much.

    ``unscored`` are positions whose two tokens were no longer listed; ``widths`` of the chunks, none for large batches.
    """

    largest_nats: float
    mean_nats: float
    positions: int
    flips: int
    unscored: int
    widths: tuple[int, ...]

    @property
    def bound_nats(self) -> float:
        """A fork at a gap up to this is a tie."""
        return _MARGIN * self.largest_nats

    @property
    def words(self) -> str:
        """One line for a report."""
        how = f"in chunks of {', '.join(map(str, self.widths))}" if self.widths else "in one batch with their context"
        return (
            f"noise bound {self.bound_nats:.2g} nats: twice the largest change of a gap over {self.positions} "
            f"positions scored again {how}"
        )


@dataclass(frozen=True, slots=True)
class Noises:
    """Both of one build on one device."""

    verification: Noise
    large_batch: Noise


def noise_from(positions: Iterable[Rescored], unscored: int, widths: Sequence[int]) -> Noise:
    """The noise that these positions show."""
    rows = list(positions)
    changes = [row.change_nats for row in rows]
    return Noise(
        largest_nats=max(changes, default=0.0),
        mean_nats=sum(changes) / len(changes) if changes else 0.0,
        positions=len(rows),
        flips=sum(row.flipped for row in rows),
        unscored=unscored,
        widths=tuple(widths),
    )


def blind_share(generations: Iterable[Generation], noise: Noise) -> float:
    """The share of the base's positions whose gap lies within the noise: there the check sees nothing."""
    gaps = [alternative.gap_nats for generation in generations for alternative in generation.alternatives]
    return sum(abs(gap) <= noise.bound_nats for gap in gaps) / len(gaps) if gaps else 0.0
