"""Two builds are alike, differ at a tie, or differ; and whose change it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_specdec.lossless import Noise
from pytest_specdec.parity import Builds, counters_parity, tokens_parity
from pytest_specdec.records import (
    Alternative,
    Cell,
    CellKey,
    Counters,
    Generation,
    Mode,
    Reason,
    Status,
    StopType,
    Timings,
)

NOISE = Noise(largest_nats=0.005, mean_nats=0.0, positions=2000, flips=0, unscored=0, widths=(8,))
TOKENS = tuple(range(10, 30))


def _generation(key: CellKey, tokens: Sequence[int], gaps: Sequence[Alternative], accepted: int) -> Generation:
    drafted = 0 if key.arm == "base" else 20
    accepted = 0 if key.arm == "base" else accepted
    return Generation(
        cell=key, prompt_id="p", block=0, ordinal=0, tokens=tuple(tokens), stop_type=StopType.LIMIT, truncated=False,
        timings=Timings(0, 5, 1.0, len(tokens), 1.0, drafted, accepted),
        counters=Counters(drafted // 5, drafted, accepted, len(tokens), (accepted,)), started_ns=0, ended_ns=1,
        event_ns=tuple(range(len(tokens))), event_tokens=(1,) * len(tokens), pieces=("x",) * len(tokens),
        alternatives=tuple(gaps),
    )  # fmt: skip


def _cell(
    build: str, arm: str, tokens: Sequence[int] = TOKENS, gaps: Sequence[Alternative] = (), accepted: int = 12
) -> Cell:
    key = CellKey(Mode.EXACT, "mixed", arm, build)
    return Cell(key, (_generation(key, tokens, gaps, accepted),))


def _gaps(position: int, second: int, gap_nats: float) -> list[Alternative]:
    """Everywhere clear, but for one position."""
    return [Alternative(second, gap_nats) if n == position else Alternative(0, 5.0) for n in range(len(TOKENS))]


def _parted(position: int, token: int) -> tuple[int, ...]:
    return (*TOKENS[:position], token, *(99 for _ in TOKENS[position + 1 :]))


def _builds(after: Cell, target_before: Cell | None = None, target_after: Cell | None = None) -> Builds:
    return Builds(
        _cell("base", "dflash2"), after, target_before or _cell("base", "base"), target_after or _cell("new", "base")
    )


def test_the_same_tokens_pass() -> None:
    finding = tokens_parity(_builds(_cell("new", "dflash2")), NOISE)
    assert finding.status is Status.PASS
    assert finding.evidence["compared_share"] == 1.0


@pytest.mark.parametrize(
    ("position", "gap_nats", "status"),
    [(15, 0.005, Status.PASS), (15, 0.02, Status.FAIL), (4, 0.005, Status.INCONCLUSIVE)],
)
def test_a_second_choice_within_the_noise_is_a_tie(position: int, gap_nats: float, status: Status) -> None:
    target = _cell("base", "base", gaps=_gaps(position, 77, gap_nats))
    finding = tokens_parity(_builds(_cell("new", "dflash2", _parted(position, 77)), target), NOISE)
    assert finding.status is status


def test_a_tie_says_nothing_where_most_positions_could_be_one() -> None:
    gaps = [Alternative(77 if n == 15 else 0, 0.005) for n in range(len(TOKENS))]
    finding = tokens_parity(_builds(_cell("new", "dflash2", _parted(15, 77)), _cell("base", "base", gaps=gaps)), NOISE)
    assert finding.status is Status.INCONCLUSIVE
    assert "100.0% of the positions" in finding.detail


def test_a_third_choice_is_no_tie_however_near_the_second_is() -> None:
    target = _cell("base", "base", gaps=_gaps(15, 78, 0.001))
    finding = tokens_parity(_builds(_cell("new", "dflash2", _parted(15, 77)), target), NOISE)
    assert finding.status is Status.FAIL
    assert finding.reason is Reason.TOKENS_DIFFER


def test_the_gap_may_be_known_from_the_new_build_alone() -> None:
    other = _parted(15, 77)
    target_after = _cell("new", "base", other, _gaps(15, TOKENS[15], 0.005))
    builds = _builds(_cell("new", "dflash2", other), _cell("base", "base"), target_after)
    assert tokens_parity(builds, NOISE).status is Status.PASS


def test_where_nobody_knows_the_gap_a_difference_is_a_difference() -> None:
    assert tokens_parity(_builds(_cell("new", "dflash2", _parted(15, 77))), NOISE).status is Status.FAIL


@pytest.mark.parametrize(
    ("target_tokens", "cause"),
    [(TOKENS, "cause: speculative"), (_parted(10, 50), "cause: not speculative")],
)
def test_speculation_is_blamed_only_where_the_target_still_says_the_same(
    target_tokens: tuple[int, ...], cause: str
) -> None:
    target_after = _cell("new", "base", target_tokens)
    finding = tokens_parity(_builds(_cell("new", "dflash2", _parted(15, 77)), None, target_after), NOISE)
    assert finding.detail.startswith(cause)


def test_a_change_of_the_target_is_named() -> None:
    before, after = _cell("base", "base"), _cell("new", "base", _parted(15, 77))
    finding = tokens_parity(Builds(before, after, before, after), NOISE)
    assert finding.detail.startswith("cause: the target itself says something else")


def test_the_same_counters_pass() -> None:
    assert counters_parity(_builds(_cell("new", "dflash2"))).measured.endswith("and the same counters")


def test_one_accepted_token_less_in_the_same_drafts_is_a_matter_of_counting() -> None:
    finding = counters_parity(_builds(_cell("new", "dflash2", accepted=11)))
    assert "cause: counting: 12 → 11" in finding.detail
    # One of seven cycles is beyond what rounding explains, but no cycle was lost: the drafts and the text are the same.
    assert finding.status is Status.PASS


def test_less_acceptance_fails_with_its_cause() -> None:
    finding = counters_parity(_builds(_cell("new", "dflash2", accepted=6)))
    assert finding.status is Status.FAIL
    assert finding.reason is Reason.ACCEPTANCE_MOVED
    assert "cause: acceptance: 12 → 6" in finding.detail


def test_counters_of_other_texts_say_nothing() -> None:
    finding = counters_parity(_builds(_cell("new", "dflash2", _parted(15, 77), accepted=2)))
    assert finding.status is Status.INCONCLUSIVE
