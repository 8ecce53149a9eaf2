"""Text that stands in front of a prompt to give it depth: Python that never repeats itself, the same for one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

__all__ = ["filler", "shuffled"]

_THINGS = (
    "anchor", "basket", "beacon", "buffer", "cargo", "ledger", "meadow", "orchard", "parcel", "queue", "ribbon",
    "signal", "stage", "ticket", "vessel",
)  # fmt: skip
_ACTS = (
    "balance", "collect", "compare", "divide", "filter", "gather", "merge", "move", "rank", "reduce", "select", "sort",
    "split", "trace", "update",
)  # fmt: skip
_TRAITS = (
    "count", "depth", "height", "length", "level", "limit", "price", "ratio", "score", "share", "size", "speed",
    "total", "weight", "width",
)  # fmt: skip

_SELECTION = '''\
def {act}_{thing}s_by_{trait}({thing}s, least={a}):
    """Those with a {trait} of at least `least`."""
    found = [{thing} for {thing} in {thing}s if {thing}.{trait} >= least]
    return sorted(found, key=lambda {thing}: -{thing}.{trait})[:{b}]


'''
_CLASS = """\
class {Thing}{Act}r:
    def __init__(self, {trait}={a}):
        self.{trait} = {trait}
        self.seen = {{}}

    def {act}(self, {thing}, step={b}):
        self.seen[{thing}.name] = {thing}.{trait} * step
        return max(self.seen.values(), default=self.{trait})


"""
_LOOP = """\
def {trait}_after_{act}({thing}, rounds={b}):
    {trait} = {thing}.{trait}
    for number in range(rounds):
        {trait} += number % {a} - {c}
        if {trait} < 0:
            break
    return {trait}


"""
_TABLE = """\
{THING}_{TRAIT} = {{
    "first": {a},
    "second": {b},
    "other": {c},
}}


"""


def filler(characters: int, seed: str) -> str:
    """About ``characters`` of source code, whole definitions only."""
    draw = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length < characters:
        thing, act, trait = draw.choice(_THINGS), draw.choice(_ACTS), draw.choice(_TRAITS)
        a, b, c = (draw.randrange(2, 9999) for _ in range(3))
        parts.append(
            draw.choice((_SELECTION, _CLASS, _LOOP, _TABLE)).format(
                thing=thing, Thing=thing.title(), THING=thing.upper(), act=act, Act=act.title(), trait=trait,
                TRAIT=trait.upper(), a=a, b=b, c=c,
            )
        )  # fmt: skip
        length += len(parts[-1])
    return "".join(parts)


def shuffled(texts: Sequence[str], characters: int, seed: str) -> str:
    """About ``characters`` of ``texts``, in the seed's own order; none comes again before all have been."""
    draw = random.Random(seed)
    parts: list[str] = []
    length = 0
    while length < characters:
        for text in draw.sample(texts, len(texts)):
            parts.append(text + "\n\n")
            length += len(text) + 2
            if length >= characters:
                break
    return "".join(parts)
