"""Guards over one generation, one cell, or the state of the device: what makes a figure void.

Each is a pure function that returns the ``Void`` or None; it names the figures that it spoils and nothing is dropped.
Guards over the pairs of a panel are in :mod:`pytest_specdec.measure.pair_guards`. Whether tokens are the right ones is
never spoiled here: losslessness is judged on every completed generation, loops and synthetic acceptance included.
"""

from __future__ import annotations

import re
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from pytest_specdec.records import Arm, Cell, Counters, FigureKind, Generation, Reason, StopType, Timings, Void

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "baseline_mismatch",
    "cache_hit",
    "counters_inconsistent",
    "degenerate_loop",
    "device_shared",
    "drafter_idle",
    "duplicate_share",
    "early_stop",
    "generation_voids",
    "hot_start",
    "length_mismatch",
    "repeating_tail",
    "server_restarted",
    "short_session",
    "synthetic_acceptance",
    "throttled",
    "tool_call",
    "truncated",
]

NGRAM = 12  # tokens: long enough that code repeats few by itself, short enough to see a looping line
MOST_DUPLICATES = 0.5  # share of 12-grams; loops of the study had 0.98, and a text that is half copy speaks for no text
LEAST_NGRAMS = 24  # below it one repeated line is half of everything
MOST_PERIOD = 256  # tokens; a longer loop is caught as duplicate 12-grams
LEAST_ROUNDS = 4  # a line said three times may be meant
LEAST_TAIL_TOKENS = 64  # a rule of dashes or a table's border is shorter
LEAST_TAIL_SHARE = 0.1  # of the output; less cannot move its speed by more than the margin
LEAST_DECODED_TOKENS = 16  # a decode figure from fewer is mostly the first cycles, before a drafter has any context
LEAST_SESSION_SHARE = 0.5  # of the sibling runs' tokens; siblings of the study lay within 0.7 of each other
MOST_FOREIGN_SHARE = 0.05  # of the cores: workers that spin at a barrier lose more than what others take
# In the words of the common chat templates, where a line begins with it: quoted in running text it is no call.
_TOOL_CALL = re.compile(r"^[ \t]*(<tool_call>|<\|tool_call\|>|<function=|\[TOOL_CALLS\])", re.MULTILINE)
_FENCED = re.compile(r"^[ \t]*```.*?(^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)

_SPEED = frozenset({FigureKind.SPEED})
_DECODE = frozenset({FigureKind.SPEED, FigureKind.ACCEPTANCE})


def generation_voids(
    generation: Generation, *, forced_tokens: int | None = None, warm: bool = False
) -> tuple[Void, ...]:
    """Every guard that one generation alone can fire.

    ``forced_tokens``: its length where the request fixed one. ``warm``: the claim is about the prompt cache.
    """
    found = [
        degenerate_loop(generation),
        early_stop(generation),
        tool_call(generation),
        counters_inconsistent(generation),
        server_restarted(generation),
        truncated(generation),
        None if warm else cache_hit(generation),
        None if forced_tokens is None else length_mismatch(generation, forced_tokens),
    ]
    return tuple(void for void in found if void is not None)


def degenerate_loop(generation: Generation) -> Void | None:
    """The output repeats itself, which lookups copy perfectly and block drafters guess well: speed and acceptance."""
    tokens = generation.tokens[:-1] if generation.stop_type is StopType.EOS else generation.tokens
    share = duplicate_share(tokens)
    if share > MOST_DUPLICATES:
        return Void(Reason.DEGENERATE_LOOP, _DECODE, f"{share:.0%} of its {NGRAM}-grams occurred before")
    period, length = repeating_tail(tokens)
    if length >= max(LEAST_TAIL_TOKENS, LEAST_TAIL_SHARE * len(tokens)):
        return Void(Reason.DEGENERATE_LOOP, _DECODE, f"its last {length} tokens repeat every {period}")
    return None


def duplicate_share(tokens: Sequence[int]) -> float:
    """Share of 12-grams that occurred earlier in ``tokens``; 0 when there are fewer than 24."""
    total = len(tokens) - NGRAM + 1
    if total < LEAST_NGRAMS:
        return 0.0
    grams = zip(*(tokens[i : i + total] for i in range(NGRAM)), strict=True)
    return 1 - len(set(grams)) / total


def repeating_tail(tokens: Sequence[int]) -> tuple[int, int]:
    """Period and length in tokens of the longest tail that is one unit said at least four times; (0, 0) without one."""
    best = (0, 0)
    for period in range(1, min(MOST_PERIOD, len(tokens) // LEAST_ROUNDS) + 1):
        i = len(tokens) - 1
        while i >= period and tokens[i] == tokens[i - period]:
            i -= 1
        length = len(tokens) - 1 - i + period
        if length >= LEAST_ROUNDS * period and length > best[1]:
            best = (period, length)
    return best


def early_stop(generation: Generation) -> Void | None:
    """The model ended it before there was anything to measure: speed and acceptance; its prefill is valid elsewhere."""
    decoded = generation.timings.predicted_n - 1
    own_stop = generation.stop_type in (StopType.EOS, StopType.WORD)
    if not (own_stop and decoded < LEAST_DECODED_TOKENS):
        return None
    return Void(Reason.EARLY_STOP, _DECODE, f"it stopped by itself after {decoded + 1} tokens")


def tool_call(generation: Generation) -> Void | None:
    """It calls a tool and waits, in text that is predictable and short: speed and acceptance."""
    found = _TOOL_CALL.search(_FENCED.sub("", generation.text))
    return Void(Reason.TOOL_CALL, _DECODE, f"it answered with {found[1]}") if found else None


def counters_inconsistent(generation: Generation) -> Void | None:
    """The server's two accounts of one request differ, or cannot be true: speed and acceptance rest on both."""
    complaints = [*_timings_complaints(generation.timings)]
    if generation.counters is not None:
        complaints += _counters_complaints(generation, generation.counters)
    return Void(Reason.COUNTERS_INCONSISTENT, _DECODE, "; ".join(complaints)) if complaints else None


def _timings_complaints(timings: Timings) -> Iterator[str]:
    if timings.draft_n_accepted > timings.draft_n:
        yield f"{timings.draft_n_accepted} accepted of {timings.draft_n} drafted"
    if timings.predicted_n > 1 and not timings.predicted_ms > 0:
        yield f"{timings.predicted_n} tokens in {timings.predicted_ms} ms"


def _counters_complaints(generation: Generation, counters: Counters) -> Iterator[str]:
    timings, positions = generation.timings, counters.accepted_per_position
    if timings.draft_n != counters.draft_tokens:
        yield f"{timings.draft_n} drafted by the timings, {counters.draft_tokens} by the metrics"
    if timings.draft_n_accepted != counters.accepted_tokens:
        yield f"{timings.draft_n_accepted} accepted by the timings, {counters.accepted_tokens} by the metrics"
    if positions and sum(positions) != counters.accepted_tokens:
        yield f"{sum(positions)} accepted by position, {counters.accepted_tokens} in all"
    if any(later > earlier for earlier, later in pairwise(positions)):
        yield f"a later position is accepted more often than an earlier one: {positions}"
    if counters.drafts - generation.cycles > _cut_off(generation, counters):
        yield f"{counters.drafts} drafts in {generation.cycles} cycles"


def _cut_off(generation: Generation, counters: Counters) -> int:
    """Accepted tokens that a stop inside the last draft may have left unpredicted, which count as cycles too few."""
    if generation.stop_type is StopType.NONE:
        return 0
    positions = counters.accepted_per_position
    return max((i for i, count in enumerate(positions, start=1) if count), default=0)


def server_restarted(generation: Generation) -> Void | None:
    """A counter that only grows went back, so another server answered: speed, acceptance and memory."""
    counters = generation.counters
    if counters is None:
        return None
    counts = (counters.drafts, counters.draft_tokens, counters.accepted_tokens, counters.predicted_tokens)
    if min(counts) >= 0:
        return None
    spoiled = _DECODE | {FigureKind.MEMORY}
    return Void(Reason.SERVER_RESTARTED, spoiled, f"a counter of the server fell by {-min(counts)}")


def truncated(generation: Generation) -> Void | None:
    """The context was too small for prompt and answer: another text than the workload's, speed and acceptance."""
    return Void(Reason.TRUNCATED, _DECODE, "the server ran out of context") if generation.truncated else None


def cache_hit(generation: Generation) -> Void | None:
    """Part of the prompt came from the cache although none should: speed."""
    reused = generation.timings.cache_n
    return Void(Reason.CACHE_HIT, _SPEED, f"{reused} prompt tokens came from the cache") if reused > 0 else None


def length_mismatch(generation: Generation, forced_tokens: int) -> Void | None:
    """A request of fixed length gave another one, so its range of positions is not its siblings': speed."""
    got = generation.timings.predicted_n
    if got == forced_tokens:
        return None
    return Void(Reason.LENGTH_MISMATCH, _SPEED, f"{got} tokens where {forced_tokens} were asked for")


def drafter_idle(cell: Cell, arm: Arm) -> Void | None:
    """A drafter that never drafted in a whole cell measures the target alone: speed and acceptance.

    An arm of lookups only is not idle when its text has nothing to look up. A cell too short to draft says nothing.
    """
    lookups_only = all(name.startswith("ngram") for name in arm.spec_types)
    if lookups_only or cell.tokens == 0 or cell.drafts > 0 or cell.drafted > 0:
        return None
    return Void(Reason.DRAFTER_IDLE, _DECODE, f"no draft in {cell.tokens} tokens of {cell.key}")


def short_session(tokens: int, siblings: Iterable[int]) -> Void | None:
    """A session that ended far before its sibling runs took another course: speed and acceptance."""
    others = list(siblings)
    if not others or tokens >= LEAST_SESSION_SHARE * median(others):
        return None
    return Void(
        Reason.SHORT_SESSION, _DECODE, f"{tokens} tokens where sibling runs made {min(others)} to {max(others)}"
    )


def synthetic_acceptance(command: Sequence[str]) -> Void | None:
    """The server accepts drafts whatever the target says (``--spec-synth-*``): speed and acceptance."""
    flag = next((word for word in command if word.startswith("--spec-synth-")), None)
    return Void(Reason.SYNTHETIC_ACCEPTANCE, _DECODE, f"the server runs with {flag}") if flag else None


def throttled(slowdowns: Sequence[str] | None) -> Void | None:
    """The device protected itself by slowing down: speed. A power cap is normal and not among ``slowdowns``.

    ``slowdowns``: names of what was seen; None where nobody could tell, which spoils nothing.
    """
    return Void(Reason.THROTTLED, _SPEED, f"the device reports: {', '.join(slowdowns)}") if slowdowns else None


def hot_start(temperature_c: float | None, limit_c: float) -> Void | None:
    """The device was warmer at the start than its profile allows: speed. None where it has no sensor."""
    if temperature_c is None or temperature_c <= limit_c:
        return None
    return Void(Reason.HOT_START, _SPEED, f"it began at {temperature_c:.0f} °C; the limit is {limit_c:.0f}")


def device_shared(foreign_processes: Sequence[str], foreign_cpu_share: float | None = None) -> Void | None:
    """Others computed on the device: speed, and memory where they were on the GPU.

    ``foreign_processes``: those on the GPU. ``foreign_cpu_share``: what others took of all cores, 0 to 1.
    """
    if foreign_processes:
        names = ", ".join(foreign_processes)
        return Void(Reason.DEVICE_SHARED, _SPEED | {FigureKind.MEMORY}, f"also on the device: {names}")
    if foreign_cpu_share is None or foreign_cpu_share <= MOST_FOREIGN_SHARE:
        return None
    return Void(Reason.DEVICE_SHARED, _SPEED, f"others took {foreign_cpu_share:.0%} of the cores")


def baseline_mismatch(recorded: Mapping[str, str], observed: Mapping[str, str]) -> Void | None:
    """What the entry was recorded under differs (device key, models, workload hash, width): nothing compares."""
    differing = [name for name, value in recorded.items() if observed.get(name) != value]
    if not differing:
        return None
    told = "; ".join(f"{name}: {recorded[name]} recorded, {observed.get(name, 'nothing')} here" for name in differing)
    return Void(Reason.BASELINE_MISMATCH, frozenset(FigureKind), told)
