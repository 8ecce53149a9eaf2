"""Each guard fires on what it is for, names what that spoils, and lets the ordinary pass."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.measure.guards import (
    baseline_mismatch,
    cache_hit,
    counters_inconsistent,
    degenerate_loop,
    device_shared,
    drafter_idle,
    duplicate_share,
    early_stop,
    generation_voids,
    hot_start,
    length_mismatch,
    repeating_tail,
    server_restarted,
    short_session,
    synthetic_acceptance,
    throttled,
    tool_call,
    truncated,
)
from pytest_specdec.records import (
    Arm,
    Cell,
    CellKey,
    Counters,
    FigureKind,
    Generation,
    Mode,
    Reason,
    StopType,
    Timings,
    Void,
)

KEY = CellKey(Mode.SPEED, "code", "dflash2")
SPEED = frozenset({FigureKind.SPEED})
DECODE = frozenset({FigureKind.SPEED, FigureKind.ACCEPTANCE})
DFLASH2 = Arm("dflash2", ("dflash2",), ("draft-dflash",), drafter="drafter", n_max=7)
LOOKUPS = Arm("ngram", ("ngram",), ("ngram-mod", "ngram-map-k4v"))
STACK = Arm("dflash2+k4v", ("dflash2", "ngram"), ("draft-dflash", "ngram-map-k4v"), drafter="drafter", n_max=7)
BASE = Arm("base")

VARIED = tuple(random.Random(5).sample(range(32_000), 200))
SOUND = Generation(
    cell=KEY,
    prompt_id="p0",
    block=0,
    ordinal=0,
    tokens=VARIED,
    stop_type=StopType.LIMIT,
    truncated=False,
    timings=Timings(
        cache_n=0, prompt_n=30, prompt_ms=9.0, predicted_n=200, predicted_ms=900.0, draft_n=280, draft_n_accepted=150
    ),
    counters=Counters(
        drafts=40,
        draft_tokens=280,
        accepted_tokens=150,
        predicted_tokens=200,
        accepted_per_position=(38, 33, 28, 21, 15, 10, 5),
    ),
    started_ns=0,
    ended_ns=10**9,
    event_ns=(),
    event_tokens=(),
    pieces=("def main() -> None:\n    ...\n",),
)


def timed(**changes: Any) -> Generation:
    return replace(SOUND, timings=replace(SOUND.timings, **changes))


def counted(**changes: Any) -> Generation:
    assert SOUND.counters is not None
    return replace(SOUND, counters=replace(SOUND.counters, **changes))


def expect(void: Void | None, reason: Reason, figures: frozenset[FigureKind]) -> None:
    assert void is not None
    assert (void.reason, void.figures) == (reason, figures)
    assert void.detail


def test_a_sound_generation_fires_nothing() -> None:
    assert generation_voids(SOUND, forced_tokens=200) == ()


# loops


@pytest.mark.parametrize("times", [3, 4, 20])
def test_a_text_that_repeats_itself_is_a_loop(times: int) -> None:
    expect(degenerate_loop(replace(SOUND, tokens=VARIED[:50] * times)), Reason.DEGENERATE_LOOP, DECODE)


def test_a_loop_that_ends_a_sound_text_is_a_loop() -> None:
    void = degenerate_loop(replace(SOUND, tokens=VARIED + (7, 8, 9) * 30))
    expect(void, Reason.DEGENERATE_LOOP, DECODE)
    assert void is not None
    assert "repeat every 3" in void.detail


def test_a_loop_before_the_end_of_text_is_a_loop() -> None:
    looping = VARIED + (7, 8, 9) * 30
    stopped = replace(SOUND, tokens=(*looping, 2), stop_type=StopType.EOS)
    expect(degenerate_loop(stopped), Reason.DEGENERATE_LOOP, DECODE)


@pytest.mark.parametrize(
    "tokens",
    [
        VARIED,
        VARIED + (7,) * 40,  # a rule of dashes
        VARIED + VARIED[:60],  # a function said twice
        (),
        (1,) * 20,
    ],
    ids=["varied", "dashes", "quoted-once", "empty", "short"],
)
def test_what_repeats_a_little_is_no_loop(tokens: tuple[int, ...]) -> None:
    assert degenerate_loop(replace(SOUND, tokens=tokens)) is None


def test_the_tail_of_a_long_text_must_be_a_part_of_it() -> None:
    long = tuple(random.Random(6).sample(range(32_000), 2000))
    assert degenerate_loop(replace(SOUND, tokens=long + (7,) * 100)) is None
    assert degenerate_loop(replace(SOUND, tokens=long + (7,) * 400)) is not None


def test_the_share_is_of_ngrams_that_occurred_before() -> None:
    assert duplicate_share(VARIED) == 0.0
    # 200 tokens twice: 389 grams, of which those that lie within the second copy are known.
    assert duplicate_share(VARIED * 2) == pytest.approx(189 / 389)
    assert duplicate_share((1,) * 35) == pytest.approx(23 / 24)
    assert duplicate_share((1,) * 34) == 0.0


@given(st.lists(st.integers(0, 1), max_size=80))
def test_the_tail_is_what_a_search_by_hand_finds(tokens: list[int]) -> None:
    period, length = repeating_tail(tokens)
    by_hand = [
        size
        for p in range(1, len(tokens) // 4 + 1)
        for size in range(4 * p, len(tokens) + 1)
        if all(tokens[i] == tokens[i - p] for i in range(len(tokens) - size + p, len(tokens)))
    ]
    assert length == max(by_hand, default=0)
    assert length >= 4 * period


# stops, calls, lengths


@pytest.mark.parametrize("stop", [StopType.EOS, StopType.WORD])
def test_a_model_that_stops_at_once_leaves_nothing_to_measure(stop: StopType) -> None:
    expect(early_stop(replace(timed(predicted_n=16), stop_type=stop)), Reason.EARLY_STOP, DECODE)
    assert early_stop(replace(timed(predicted_n=17), stop_type=stop)) is None


def test_a_request_for_few_tokens_is_no_early_stop() -> None:
    assert early_stop(timed(predicted_n=4)) is None


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "read_file"}\n</tool_call>',
        "I will look at the file.\n\n<tool_call>\n<function=read_file>",
        "[TOOL_CALLS][{}]",
        "```python\nprint(1)\n```\n<tool_call>{}",
    ],
)
def test_a_call_of_a_tool_is_no_answer(text: str) -> None:
    expect(tool_call(replace(SOUND, pieces=(text,))), Reason.TOOL_CALL, DECODE)


@pytest.mark.parametrize(
    "text",
    [
        "The tag `<tool_call>` marks a call; after it, <tool_call> ends.",
        "```\n<tool_call>\n```\nas above",
        "```python\n<tool_call>",
        "",
    ],
)
def test_a_text_about_tool_calls_is_an_answer(text: str) -> None:
    assert tool_call(replace(SOUND, pieces=(text,))) is None


def test_a_call_that_comes_in_pieces_is_seen() -> None:
    expect(tool_call(replace(SOUND, pieces=("<tool", "_call>", "{}"))), Reason.TOOL_CALL, DECODE)


def test_a_forced_length_must_be_met() -> None:
    expect(length_mismatch(SOUND, 256), Reason.LENGTH_MISMATCH, SPEED)
    assert length_mismatch(SOUND, 200) is None


def test_an_answer_cut_off_by_the_context_is_another_text() -> None:
    expect(truncated(replace(SOUND, truncated=True)), Reason.TRUNCATED, DECODE)
    assert truncated(SOUND) is None


def test_a_cold_prompt_must_not_come_from_the_cache() -> None:
    expect(cache_hit(timed(cache_n=12)), Reason.CACHE_HIT, SPEED)
    assert cache_hit(SOUND) is None
    assert generation_voids(timed(cache_n=12), warm=True) == ()


# counters


@pytest.mark.parametrize(
    "generation",
    [
        timed(draft_n=281),
        timed(draft_n_accepted=149),
        timed(predicted_ms=0.0),
        counted(draft_tokens=270),
        counted(accepted_tokens=151),
        counted(accepted_per_position=(38, 33, 28, 21, 15, 10, 4)),
        counted(accepted_per_position=(33, 38, 28, 21, 15, 10, 5)),
        counted(drafts=49 + 8),
        replace(counted(drafts=50), stop_type=StopType.NONE),
        replace(timed(draft_n=100), counters=None),
    ],
    ids=[
        "drafted",
        "accepted",
        "time",
        "m-drafted",
        "m-accepted",
        "sum",
        "rising",
        "cycles",
        "cycles-no-stop",
        "alone",
    ],
)
def test_two_accounts_that_differ_or_cannot_be_true_are_void(generation: Generation) -> None:
    expect(counters_inconsistent(generation), Reason.COUNTERS_INCONSISTENT, DECODE)


def test_a_stop_inside_a_draft_explains_a_few_cycles_too_few() -> None:
    assert SOUND.cycles == 49
    assert counters_inconsistent(counted(drafts=49 + 7)) is None


def test_a_request_among_others_is_judged_by_its_timings_alone() -> None:
    assert counters_inconsistent(replace(SOUND, counters=None)) is None
    assert server_restarted(replace(SOUND, counters=None)) is None


def test_counters_that_went_back_are_another_server() -> None:
    void = server_restarted(counted(predicted_tokens=-340))
    expect(void, Reason.SERVER_RESTARTED, DECODE | {FigureKind.MEMORY})
    assert server_restarted(SOUND) is None


def test_all_that_one_generation_shows_is_named_at_once() -> None:
    bad = replace(timed(cache_n=3, predicted_n=5), stop_type=StopType.EOS, truncated=True, pieces=("<tool_call>",))
    reasons = {void.reason for void in generation_voids(bad, forced_tokens=100)}
    assert reasons >= {
        Reason.CACHE_HIT,
        Reason.EARLY_STOP,
        Reason.TOOL_CALL,
        Reason.TRUNCATED,
        Reason.LENGTH_MISMATCH,
    }


def test_no_generation_guard_spoils_losslessness() -> None:
    bad = replace(counted(drafts=-1, draft_tokens=3), tokens=(1,) * 200, truncated=True, pieces=("<tool_call>",))
    voids = generation_voids(bad, forced_tokens=1)
    assert len(voids) >= 5
    assert all(FigureKind.LOSSLESS not in void.figures for void in voids)


# cells and commands


def idle(generation: Generation = SOUND) -> Cell:
    timings = replace(generation.timings, draft_n=0, draft_n_accepted=0)
    return Cell(KEY, (replace(generation, timings=timings, counters=Counters(0, 0, 0, 200, ())),) * 3)


@pytest.mark.parametrize("arm", [DFLASH2, STACK])
def test_a_drafter_that_never_drafts_measures_the_target(arm: Arm) -> None:
    expect(drafter_idle(idle(), arm), Reason.DRAFTER_IDLE, DECODE)
    assert drafter_idle(Cell(KEY, (*idle().generations, SOUND)), arm) is None


@pytest.mark.parametrize("arm", [LOOKUPS, BASE])
def test_lookups_without_a_match_and_no_drafter_at_all_are_not_idle(arm: Arm) -> None:
    assert drafter_idle(idle(), arm) is None


def test_a_cell_without_decoded_tokens_says_nothing_of_its_drafter() -> None:
    assert drafter_idle(idle(timed(predicted_n=1)), DFLASH2) is None
    assert drafter_idle(Cell(KEY, ()), DFLASH2) is None


def test_a_session_far_shorter_than_its_siblings_took_another_course() -> None:
    expect(short_session(1134, [50_000, 61_000, 73_000]), Reason.SHORT_SESSION, DECODE)
    assert short_session(50_000, [61_000, 73_000]) is None
    assert short_session(1134, []) is None


@pytest.mark.parametrize("flag", ["--spec-synth-len", "--spec-synth-rates", "--spec-synth-len=4"])
def test_synthetic_acceptance_is_known_by_its_flag(flag: str) -> None:
    expect(synthetic_acceptance(["llama-server", flag, "4"]), Reason.SYNTHETIC_ACCEPTANCE, DECODE)
    assert synthetic_acceptance(["llama-server", "--spec-type", "draft-dflash"]) is None


# the device and the record


def test_a_device_that_protects_itself_gives_no_speed() -> None:
    expect(throttled(["hardware thermal slowdown"]), Reason.THROTTLED, SPEED)
    assert throttled([]) is None
    assert throttled(None) is None


def test_a_warm_start_gives_no_speed() -> None:
    expect(hot_start(52.0, 45.0), Reason.HOT_START, SPEED)
    assert hot_start(45.0, 45.0) is None
    assert hot_start(None, 45.0) is None


def test_a_shared_device_gives_no_speed_and_on_a_gpu_no_memory() -> None:
    expect(device_shared(["python (pid 7)"]), Reason.DEVICE_SHARED, SPEED | {FigureKind.MEMORY})
    expect(device_shared([], 0.2), Reason.DEVICE_SHARED, SPEED)
    assert device_shared([], 0.04) is None
    assert device_shared([]) is None


def test_a_record_of_something_else_compares_nothing() -> None:
    recorded = {"device": "H200", "workload": "ab12", "width": "7"}
    assert baseline_mismatch(recorded, {**recorded, "extra": "1"}) is None
    void = baseline_mismatch(recorded, {**recorded, "workload": "cd34"})
    expect(void, Reason.BASELINE_MISMATCH, frozenset(FigureKind))
    assert void is not None
    assert "workload: ab12 recorded, cd34 here" in void.detail
    assert baseline_mismatch(recorded, {"device": "H200", "workload": "ab12"}) is not None
