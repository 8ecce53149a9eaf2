"""Replies made of token ids, for judging them without a server."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_specdec.lossless import Noise
from pytest_specdec.records import Alternative, CellKey, Generation, Mode, StopType, Timings

__all__ = ["NOISE", "SECOND", "reply"]

SECOND = 100  # the second choice at a position is its token plus this
NOISE = Noise(largest_nats=0.005, mean_nats=0.0001, positions=2000, flips=0, unscored=0, widths=(8,))


def reply(*tokens: int, prompt: str = "p", gaps: Sequence[float] = (), drafted: int = 7) -> Generation:
    """Each token is a letter of its own event; ``gaps`` are those of the second choices, 1 nat where none is given."""
    gaps = [*gaps, *[1.0] * (len(tokens) - len(gaps))]
    return Generation(
        cell=CellKey(Mode.EXACT, "unit", "any"),
        prompt_id=prompt,
        block=0,
        ordinal=0,
        tokens=tokens,
        stop_type=StopType.LIMIT,
        truncated=False,
        timings=Timings(0, 1, 1.0, len(tokens), 1.0, drafted, 1),
        counters=None,
        started_ns=0,
        ended_ns=1,
        event_ns=tuple(range(len(tokens))),
        event_tokens=(1,) * len(tokens),
        pieces=tuple(chr(ord("a") + token % 26) for token in tokens),
        alternatives=tuple(Alternative(token + SECOND, gap) for token, gap in zip(tokens, gaps, strict=True)),
    )
