"""Guards over a panel: they find what they are for, and chance seldom fires them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.measure.pair_guards import (
    autocorrelated,
    blocks_apart,
    clock_drift,
    noisy_session,
    order_effect,
    pair_length_mismatch,
)
from pytest_specdec.records import (
    Cell,
    CellKey,
    FigureKind,
    Generation,
    Mode,
    Pair,
    Reason,
    StopType,
    Timings,
    Void,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SPEED = frozenset({FigureKind.SPEED})
SIGMA = 0.04
MARGIN = 0.05
BLOCK = 4


def gaussian(pairs: int, seed: int, sigma: float = SIGMA) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(0, sigma) for _ in range(pairs)]


def blocks(pairs: int) -> list[int]:
    return [i // BLOCK for i in range(pairs)]


def together(count: int, intraclass: float) -> list[float]:
    """So many blocks whose pairs correlate by ``intraclass``."""
    shared = gaussian(count, 7, SIGMA * intraclass**0.5)
    own = gaussian(count * BLOCK, 8, SIGMA * (1 - intraclass) ** 0.5)
    return [shared[block] + noise for block, noise in zip(blocks(count * BLOCK), own, strict=True)]


def expect(void: Void | None, reason: Reason) -> None:
    assert void is not None
    assert (void.reason, void.figures) == (reason, SPEED)
    assert void.detail


@pytest.mark.parametrize(
    "guard",
    [
        lambda x: order_effect(blocks(len(x)), x, 0.0),
        lambda x: autocorrelated(x, range(len(x))),
        lambda x: autocorrelated(x, blocks(len(x))),
        lambda x: blocks_apart(x, blocks(len(x)), 0.0),
        lambda x: noisy_session(x, SIGMA),
    ],
    ids=["order", "autocorrelated", "autocorrelated blocks", "blocks apart", "noisy"],
)
@pytest.mark.parametrize("pairs", [12, 24, 100])
def test_chance_hardly_ever_fires_a_guard(guard: Callable[[Sequence[float]], Void | None], pairs: int) -> None:
    """Of 2,000 sound contrasts about one may; seven would be six times too many."""
    assert sum(guard(gaussian(pairs, seed)) is not None for seed in range(2000)) < 7


def test_who_goes_first_must_not_matter() -> None:
    effect = [0.03 if b % 2 == 0 else -0.03 for b in blocks(64)]
    values = [e + x for e, x in zip(effect, gaussian(64, 1), strict=True)]
    expect(order_effect(blocks(64), values, MARGIN), Reason.ORDER_EFFECT)


def test_an_order_effect_that_is_certain_but_small_is_no_matter() -> None:
    values = [(0.005 if b % 2 == 0 else -0.005) + x for b, x in zip(blocks(64), gaussian(64, 2, 0.001), strict=True)]
    assert order_effect(blocks(64), values, MARGIN) is None
    assert order_effect(blocks(64), values, 0.01) is not None


@pytest.mark.parametrize(("errors", "fires"), [(4.0, False), (7.0, True)])
def test_few_pairs_must_show_an_order_effect_more_clearly(errors: float, fires: bool) -> None:
    """Of six pairs each way the normal quantile would take 4 standard errors for certain; Student's takes 6."""
    error = SIGMA * (1.2 * 2 / 6) ** 0.5 / 2
    effect = errors * error
    values = [side * effect + noise for noise in (SIGMA, -SIGMA) * 3 for side in (1, -1)]
    assert (order_effect(list(range(12)), values, MARGIN) is not None) is fires


def test_an_order_effect_is_certain_by_its_blocks_and_not_by_their_pairs() -> None:
    """Six visits each way whose pairs agree are six figures each way, not forty-eight."""
    visits = [side * 0.02 + noise for noise in (SIGMA, -SIGMA) * 3 for side in (1, -1)]
    assert order_effect(list(range(12)), visits, MARGIN) is None
    pairs = [visit for visit in visits for _ in range(8)]
    assert order_effect([n // 8 for n in range(96)], pairs, MARGIN) is None


def test_a_shift_of_all_pairs_is_no_order_effect() -> None:
    assert order_effect(blocks(64), [x - 0.5 for x in gaussian(64, 3)], MARGIN) is None
    assert order_effect(blocks(8), [1.0] * 4 + [-1.0] * 4, MARGIN) is None, "too few to tell"


def test_what_the_pairs_of_a_block_share_is_no_correlation_of_blocks() -> None:
    values = together(40, 0.8)
    assert autocorrelated(values, range(len(values))) is not None
    assert autocorrelated(values, blocks(len(values))) is None


def test_blocks_that_share_more_than_was_reckoned_with_are_found() -> None:
    values = together(40, 0.8)
    expect(blocks_apart(values, blocks(len(values)), 0.1), Reason.AUTOCORRELATED)
    assert blocks_apart(values, blocks(len(values)), 0.7) is None
    assert blocks_apart(values, range(len(values)), 0.0) is None, "pairs on servers of their own share nothing"
    assert blocks_apart(values[: 5 * BLOCK], blocks(5 * BLOCK), 0.1) is None, "five blocks are too few to tell"


def test_neighbours_that_go_together_are_found() -> None:
    values = [0.0]
    for shock in gaussian(200, 4):
        values.append(0.6 * values[-1] + shock)
    expect(autocorrelated(values, range(len(values))), Reason.AUTOCORRELATED)


def test_neighbours_that_alternate_do_not_weaken_the_evidence() -> None:
    assert autocorrelated([0.04, -0.04] * 50, range(100)) is None
    assert autocorrelated([0.0] * 50, range(50)) is None
    assert autocorrelated([1.0, 2.0], range(2)) is None


def test_a_session_twice_as_noisy_as_its_calibration_is_found() -> None:
    expect(noisy_session(gaussian(60, 5, 2 * SIGMA), SIGMA), Reason.NOISY_SESSION)


def test_one_hiccup_is_no_noisy_session() -> None:
    assert noisy_session([*gaussian(30, 6), 3.0], SIGMA) is None


def test_few_pairs_must_be_much_noisier() -> None:
    wide = [0.07, -0.07] * 3
    assert noisy_session(wide, SIGMA) is None
    assert noisy_session(wide * 6, SIGMA) is not None
    assert noisy_session(wide * 6, SIGMA, worth=6) is None, "many pairs of few servers are as good as few"


@pytest.mark.parametrize(("reference", "candidate", "fires"), [(100, 200, False), (100, 201, True), (9, 0, True)])
def test_a_pair_of_very_different_lengths_was_measured_at_other_depths(
    reference: int, candidate: int, fires: bool
) -> None:
    void = pair_length_mismatch(Pair("p0", 0, reference, candidate, 1, 1, 1.0, 1.0))
    assert (void is not None) is fires
    if fires:
        expect(void, Reason.LENGTH_MISMATCH)


# drift


def generation(arm: str, ordinal: int, prompt: str, ms_per_cycle: float) -> Generation:
    return Generation(
        cell=CellKey(Mode.SPEED, "code", arm),
        prompt_id=prompt,
        block=ordinal // BLOCK,
        ordinal=ordinal,
        tokens=(),
        stop_type=StopType.LIMIT,
        truncated=False,
        timings=Timings(0, 10, 1.0, 101, 100 * ms_per_cycle, 0, 0),
        counters=None,
        started_ns=ordinal * 10**9,
        ended_ns=ordinal * 10**9 + 1,
        event_ns=(),
        event_tokens=(),
        pieces=(),
    )


def cell(arm: str, drift: float, seed: int, count: int = 24, prompts: int = 24) -> Cell:
    """Milliseconds per cycle that grow by ``drift`` from the first to the last, with noise and costs of prompts."""
    rng = random.Random(seed)
    costs = [1.0 if prompts == count else rng.uniform(0.5, 2.0) for _ in range(prompts)]
    rows = [
        generation(
            arm,
            i,
            f"p{i % prompts}" + (f"#{i // prompts + 1}" if i >= prompts else ""),
            10 * costs[i % prompts] * (1 + drift) ** (i / (count - 1)) * rng.gauss(1, 0.02),
        )
        for i in range(count)
    ]
    return Cell(CellKey(Mode.SPEED, "code", arm), tuple(rows))


@pytest.mark.parametrize("drift", [0.4, -0.4])
def test_a_machine_that_changes_on_all_arms_drifts(drift: float) -> None:
    expect(clock_drift([cell("base", drift, 1), cell("dflash2", drift, 2)]), Reason.CLOCK_DRIFT)


def test_an_arm_that_changes_alone_is_a_finding_and_no_drift() -> None:
    assert clock_drift([cell("base", 0.0, 1), cell("dflash2", 0.4, 2)]) is None
    assert clock_drift([cell("base", -0.3, 1), cell("dflash2", 0.3, 2)]) is None


def test_a_drift_that_counterbalancing_cancels_is_let_be() -> None:
    assert clock_drift([cell("base", 0.2, 1), cell("dflash2", 0.2, 2)]) is None


def test_prompts_that_come_again_are_compared_with_themselves() -> None:
    arms = [cell(arm, 0.3, seed, prompts=8) for seed, arm in enumerate(["base", "dflash2"])]
    expect(clock_drift(arms), Reason.CLOCK_DRIFT)


def test_dearer_prompts_at_the_end_are_noise_and_seldom_drift() -> None:
    hits = sum(
        clock_drift([cell("base", 0.0, seed), cell("dflash2", 0.0, seed + 500)]) is not None for seed in range(200)
    )
    assert hits == 0


def test_without_enough_generations_there_is_no_trend() -> None:
    assert clock_drift([cell("base", 0.5, 1, count=5, prompts=5)]) is None
    assert clock_drift([cell("base", 0.5, 1), Cell(CellKey(Mode.SPEED, "code", "dflash2"), ())]) is None
    assert clock_drift([]) is None
