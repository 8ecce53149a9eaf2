"""Draws requests from a grammar of what users send: code, prose, repetition, Unicode, and lengths at the edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from pytest_specdec.records import Json

__all__ = ["Ask", "Scenario", "scenarios"]

_NAMES = st.sampled_from(["harbor", "meadow", "quarry", "ledger", "basket", "total", "first"])
_FUNCTION = "def sort_{a}s({a}s, limit=9):\n    ready = [{a} for {a} in {a}s if {a}.ready]\n    return ready[:limit]\n"
_CLASS = "class {a}Store:\n    def __init__(self):\n        self.by_name = {{}}\n        self.{b} = []\n\n"
_LOOP = "    for {a} in {a}s:\n        {b} += {a}.weight\n        seen += 1\n"
_SENTENCES = st.sampled_from([
    "Every summer the children of the town built a raft, and every summer it sank. ",
    "The rain stopped an hour before dawn. ",
    "There is a story about the harbor wall that is told only in winter. ",
    "Anna walked to the hill above the town, ",
])  # fmt: skip
_WIDE = st.sampled_from(["naïve café ", "漢字とかな ", "🙂🙃 ", "α → ∑ ", "ñandú\u0301 ", "\u200b", "Grüße aus Köln. "])
_REPEATED = st.builds(
    lambda word, times: word * times, st.sampled_from(["la ", "0123 ", "ab", "\n", "x = 1\n"]), st.integers(1, 40)
)
_STOPS = st.sampled_from(["\n\n", "return", "self", " the", "name", "🙂", ":", "total +="])


def _of_two_names(form: str) -> st.SearchStrategy[str]:
    return st.builds(lambda a, b: form.format(a=a, b=b), _NAMES, _NAMES)


_PIECES = st.one_of(*map(_of_two_names, (_FUNCTION, _CLASS, _LOOP)), _SENTENCES, _WIDE, _REPEATED, st.just("# file\n"))
_PROMPTS = st.one_of(  # the simplest first: that is where a counterexample shrinks to
    st.sampled_from(["a", " ", "\n", ".", "# file\n"]),
    st.lists(_PIECES, min_size=1, max_size=6).map("".join),
    st.builds(lambda piece, name: f"# file\n{piece}\n# rename {name} to other_{name}\n", _PIECES, _NAMES),
)
# From nothing at all over the edges of a draft (a block of 8, a lookup of 4 or 8) to several of them.
_LENGTHS = st.one_of(st.integers(0, 17), st.integers(18, 64))


@dataclass(frozen=True)
class Ask:
    """One request: its prompt, what it asks for beside greedy decoding, and the slot that it goes to."""

    prompt: str
    request: Mapping[str, Json] = field(default_factory=dict)
    slot: int = 0

    @property
    def body(self) -> dict[str, Json]:
        """The request as it is sent, without its prompt."""
        return {"temperature": 0.0, **self.request, "id_slot": self.slot}


@dataclass(frozen=True)
class Scenario:
    """Requests to one server, in this order, one after the other or all at once."""

    asks: tuple[Ask, ...]
    at_once: bool = False


def _requests() -> st.SearchStrategy[Mapping[str, Json]]:
    return st.fixed_dictionaries(
        {"n_predict": _LENGTHS, "cache_prompt": st.booleans()},
        optional={"stop": st.lists(_STOPS, min_size=1, max_size=2, unique=True), "ignore_eos": st.just(True)},
    )


def scenarios(slots: int) -> st.SearchStrategy[Scenario]:
    """Shrinks towards one short request with a short prompt."""
    asks = st.builds(Ask, _PROMPTS, _requests(), st.integers(0, slots - 1))
    several = st.lists(asks, min_size=1, max_size=3).map(tuple)
    return st.builds(Scenario, several, st.booleans()) | asks.map(_asked_again)


def _asked_again(ask: Ask) -> Scenario:
    """The request once more in its slot, where the cache now holds all of its prompt."""
    return Scenario((ask, replace(ask, request={**ask.request, "cache_prompt": True})))
