"""Cells to pairs to log ratios, and the cause of a change."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.records import (
    Cell,
    CellKey,
    Counters,
    FigureKind,
    Generation,
    Mode,
    Pair,
    Reason,
    StopType,
    Timings,
    Void,
)
from pytest_specdec.stats.contrast import (
    Cause,
    Change,
    anchored,
    causes,
    contrast,
    cycles_per_s_logs,
    exact_part_of,
    pair_up,
    per_prompt,
    throughput_logs,
    tokens_per_cycle_logs,
)

BASE, ARM = (CellKey(Mode.SPEED, "code", arm) for arm in ("base", "dflash2"))
SPEED_VOID = Void(Reason.CACHE_HIT, frozenset({FigureKind.SPEED}), "made up")
MEMORY_VOID = Void(Reason.DEVICE_SHARED, frozenset({FigureKind.MEMORY}), "made up")

counts = st.integers(1, 10_000)
durations = st.floats(0.1, 1e6)
pairs_of_any_kind = st.lists(
    st.builds(
        Pair,
        prompt_id=st.sampled_from(["a", "b", "b#2", "c"]),
        block=st.integers(0, 9),
        tokens_reference=counts,
        tokens_candidate=counts,
        cycles_reference=counts,
        cycles_candidate=counts,
        decode_ms_reference=durations,
        decode_ms_candidate=durations,
    ),
    min_size=1,
    max_size=12,
)


def generation(
    key: CellKey,
    prompt: str = "p0",
    *,
    block: int = 0,
    ordinal: int = 0,
    tokens: int = 101,
    accepted: int = 0,
    drafts: int = 0,
    decode_ms: float = 1000.0,
    voids: tuple[Void, ...] = (),
) -> Generation:
    return Generation(
        cell=key,
        prompt_id=prompt,
        block=block,
        ordinal=ordinal,
        tokens=tuple(range(tokens)),
        stop_type=StopType.LIMIT,
        truncated=False,
        timings=Timings(0, 10, 5.0, tokens, decode_ms, accepted, accepted),
        counters=Counters(drafts, accepted, accepted, tokens, ()),
        started_ns=0,
        ended_ns=1,
        event_ns=(),
        event_tokens=(),
        pieces=(),
        voids=voids,
    )


def test_a_pair_holds_what_came_after_the_first_token_on_both_sides() -> None:
    reference = Cell(BASE, (generation(BASE, decode_ms=2000.0),))
    candidate = Cell(ARM, (generation(ARM, accepted=60, drafts=30, decode_ms=800.0),))
    assert pair_up(reference, candidate) == (Pair("p0", 0, 100, 100, 100, 40, 2000.0, 800.0),)


def test_a_stop_inside_a_draft_leaves_at_least_the_drafting_cycles() -> None:
    candidate = Cell(ARM, (generation(ARM, accepted=95, drafts=9),))
    assert pair_up(Cell(BASE, (generation(BASE),)), candidate)[0].cycles_candidate == 9


def test_pairs_are_by_prompt_and_block_in_the_order_of_the_reference() -> None:
    places = [("p1", 0), ("p0", 0), ("p0", 1), ("p2", 1)]
    reference = Cell(BASE, tuple(generation(BASE, p, block=b, ordinal=i) for i, (p, b) in enumerate(places)))
    others = [*reversed(places[:3]), ("p3", 1)]
    candidate = Cell(ARM, tuple(generation(ARM, p, block=b, ordinal=i) for i, (p, b) in enumerate(others)))
    assert [(p.prompt_id, p.block) for p in pair_up(reference, candidate)] == places[:3]


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_generation_without_a_valid_speed_makes_no_pair(side: str) -> None:
    void = (SPEED_VOID,)
    reference = Cell(BASE, (generation(BASE, voids=void if side == "reference" else ()),))
    candidate = Cell(ARM, (generation(ARM, voids=void if side == "candidate" else ()),))
    assert pair_up(reference, candidate) == ()


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_a_cell_without_a_valid_speed_makes_no_pair(side: str) -> None:
    voids = {"reference": (), "candidate": (), side: (SPEED_VOID,)}
    reference = Cell(BASE, (generation(BASE),), voids=voids["reference"])
    candidate = Cell(ARM, (generation(ARM),), voids=voids["candidate"])
    assert pair_up(reference, candidate) == ()


def test_a_generation_whose_memory_alone_is_void_still_makes_a_pair() -> None:
    reference = Cell(BASE, (generation(BASE, voids=(MEMORY_VOID,)),))
    assert len(pair_up(reference, Cell(ARM, (generation(ARM),)))) == 1
    assert not pair_up(reference, Cell(ARM, (generation(ARM),)), needs={FigureKind.MEMORY})


@pytest.mark.parametrize("voids", [(), (SPEED_VOID,)], ids=["valid", "void"])
def test_a_second_try_in_a_block_is_no_second_chance(voids: tuple[Void, ...]) -> None:
    first = generation(ARM, ordinal=0, decode_ms=900.0, voids=voids)
    second = generation(ARM, ordinal=1, decode_ms=500.0)
    pairs = pair_up(Cell(BASE, (generation(BASE),)), Cell(ARM, (second, first)))
    assert [p.decode_ms_candidate for p in pairs] == ([] if voids else [900.0])


@given(pairs_of_any_kind)
def test_throughput_is_tokens_per_cycle_times_cycles_per_second(pairs: list[Pair]) -> None:
    by_hand = [
        math.log((p.tokens_candidate / p.decode_ms_candidate) / (p.tokens_reference / p.decode_ms_reference))
        for p in pairs
    ]
    assert throughput_logs(pairs) == pytest.approx(by_hand, abs=1e-9)
    assert tokens_per_cycle_logs(pairs) + cycles_per_s_logs(pairs) == pytest.approx(by_hand, abs=1e-9)


def test_slower_cycles_are_negative() -> None:
    (log,) = cycles_per_s_logs([Pair("p", 0, 100, 100, 50, 50, 1000.0, 1100.0)])
    assert log == pytest.approx(-math.log(1.1))


@given(pairs_of_any_kind, st.floats(-2, 2))
def test_with_exact_tokens_per_cycle_the_anchor_takes_their_mean_over_prompts(
    pairs: list[Pair], expected: float
) -> None:
    x = anchored(pairs, expected, exact=True)
    assert x == pytest.approx(cycles_per_s_logs(pairs) + exact_part_of(pairs) - expected, abs=1e-9)
    assert anchored(pairs, expected, exact=True, exact_part=0.25) == pytest.approx(
        cycles_per_s_logs(pairs) + 0.25 - expected, abs=1e-9
    )


def test_acceptance_that_differs_between_prompts_is_no_noise_when_it_is_exact() -> None:
    pairs = [Pair(f"p{i}", 0, 120, 120, 120, 120 // (i + 1), 1000.0, 1000.0 / (i + 1)) for i in range(4)]
    exact = anchored(pairs, 0.0, exact=True)
    assert exact == pytest.approx([exact[0]] * 4)
    assert exact.mean() == pytest.approx(throughput_logs(pairs).mean())
    assert anchored(pairs, 0.0, exact=False).std() > 0.4


def test_lost_acceptance_shows_although_each_pair_carries_only_its_cycles() -> None:
    pairs = [Pair(f"p{i}", 0, 100, 100, 50, 60, 1000.0, 1200.0) for i in range(4)]
    assert anchored(pairs, 0.0, exact=True) == pytest.approx([-math.log(1.2)] * 4)


def test_an_anchor_for_each_prompt_is_that_of_its_repeats_too() -> None:
    pairs = [Pair(name, 0, 100, 100, 100, 50, 1000.0, 500.0) for name in ("a", "b", "b#2")]
    x = anchored(pairs, {"a": math.log(2), "b": 0.0}, exact=True)
    assert x == pytest.approx([0.0, math.log(2), math.log(2)])
    with pytest.raises(KeyError):
        anchored(pairs, {"a": 0.0}, exact=True)


def test_a_generation_without_cycles_gives_a_figure_that_is_not_finite() -> None:
    assert not math.isfinite(cycles_per_s_logs([Pair("p", 0, 0, 10, 0, 10, 0.0, 10.0)])[0])


def test_repeats_of_a_prompt_are_one_prompt() -> None:
    pairs = [Pair(name, block, 1, 1, 1, 1, 1.0, 1.0) for block, name in enumerate(["b", "a", "b#2", "b"])]
    assert per_prompt(pairs, [1.0, 5.0, 2.0, 6.0]) == {"b": 3.0, "a": 5.0}
    with pytest.raises(ValueError, match="zip"):
        per_prompt(pairs, [1.0])


def test_a_contrast_is_split_into_its_two_factors() -> None:
    reference = Cell(BASE, tuple(generation(BASE, f"p{i}", decode_ms=1000.0 + i) for i in range(8)))
    candidate = Cell(
        ARM, tuple(generation(ARM, f"p{i}", accepted=60, drafts=40, decode_ms=500.0 + i / 2) for i in range(8))
    )
    found = contrast(reference, candidate)
    assert (found.reference, found.candidate, len(found.pairs)) == (BASE, ARM, 8)
    assert found.throughput.value == pytest.approx(2.0)
    assert found.tokens_per_cycle == pytest.approx(2.5)
    assert found.cycles_per_s.value == pytest.approx(0.8)
    assert found.throughput.low <= found.throughput.value <= found.throughput.high


def test_a_contrast_without_pairs_has_no_figures() -> None:
    found = contrast(Cell(BASE, ()), Cell(ARM, ()))
    assert found.pairs == ()
    assert math.isnan(found.throughput.value)
    assert math.isnan(found.tokens_per_cycle)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (Change(), ()),
        (Change(tokens_per_cycle=-0.1), (Cause.TEXT_OR_ACCEPTANCE,)),
        (Change(cycles_per_s=-0.1), (Cause.COST_PER_CYCLE,)),
        (Change(cycles_per_s=-0.1, base_cycles_per_s=-0.1), (Cause.BASE_DECODE,)),
        (Change(cycles_per_s=-0.2, base_cycles_per_s=-0.08), (Cause.COST_PER_CYCLE, Cause.BASE_DECODE)),
        (Change(base_cycles_per_s=-0.1), (Cause.BASE_DECODE,)),
        (Change(prefill_per_s=-0.2), (Cause.PREFILL,)),
        (Change(memory=-0.1, prefill_per_s=-0.2), (Cause.PREFILL, Cause.MEMORY)),
        (Change(tokens_per_cycle=0.3, cycles_per_s=0.2, prefill_per_s=0.1, memory=0.1), ()),
        (Change(tokens_per_cycle=0.3, cycles_per_s=-0.1), (Cause.COST_PER_CYCLE,)),
        (Change(tokens_per_cycle=-0.04, cycles_per_s=-0.03), (Cause.TEXT_OR_ACCEPTANCE,)),
        (Change(tokens_per_cycle=-0.02, cycles_per_s=-0.02), ()),
    ],
)
def test_a_change_is_named_by_its_cause(change: Change, named: tuple[Cause, ...]) -> None:
    assert causes(change, 0.05) == named


@given(st.builds(Change, *[st.floats(-1, 1)] * 5))
def test_whatever_is_slower_by_more_than_the_tolerance_has_a_cause(change: Change) -> None:
    if change.tokens_per_cycle + change.cycles_per_s < -0.05:
        assert causes(change, 0.05)
