"""The counters of ``/metrics``, as totals and as what one request added."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_specdec.records import Counters

__all__ = ["Totals", "delta", "parse"]

_LINE = re.compile(
    r"^llamacpp:(?P<name>\w+?)(_total)?(\{position=\"(?P<position>\d+)\"\})? (?P<value>\S+)$", re.MULTILINE
)
_NEEDED = (
    "spec_decode_num_drafts",
    "spec_decode_num_draft_tokens",
    "spec_decode_num_accepted_tokens",
    "tokens_predicted",
)
_PER_POSITION = "spec_decode_num_accepted_tokens_per_pos"


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums since the server started."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    predicted_tokens: int
    accepted_per_position: tuple[int, ...]


def parse(text: str) -> Totals:
    """Read Prometheus text.

    Raises KeyError with the name of a counter that is not there, and ValueError where one is no longer exact.
    """
    values: dict[str, str] = {}
    positions: dict[int, int] = {}
    for match in _LINE.finditer(text):
        if match["position"] is None:
            values[match["name"]] = match["value"]
        elif match["name"] == _PER_POSITION:
            positions[int(match["position"])] = int(match["value"])
    drafts, draft_tokens, accepted, predicted = (_exact(name, values[name]) for name in _NEEDED)
    return Totals(drafts, draft_tokens, accepted, predicted, tuple(positions[key] for key in sorted(positions)))


def _exact(name: str, value: str) -> int:
    """llama-server prints six digits: from a million on a counter is rounded and its differences mean nothing."""
    if not value.isdigit():
        raise ValueError(f"{name} reads {value}")
    return int(value)


def delta(before: Totals, after: Totals) -> Counters:
    """What was counted between two readings. A negative count means that the server restarted in between."""
    width = len(after.accepted_per_position)
    earlier = before.accepted_per_position + (0,) * (width - len(before.accepted_per_position))
    return Counters(
        drafts=after.drafts - before.drafts,
        draft_tokens=after.draft_tokens - before.draft_tokens,
        accepted_tokens=after.accepted_tokens - before.accepted_tokens,
        predicted_tokens=after.predicted_tokens - before.predicted_tokens,
        accepted_per_position=tuple(
            late - early for late, early in zip(after.accepted_per_position, earlier, strict=True)
        ),
    )
