"""The server's counters tell the truth: they agree with each other and with what was returned."""

from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.judge import Judge
from pytest_specdec.records import Finding, Generation, Reason, Status, StopType

# ngram-mod's table outlives requests, so the same request may draft differently the second time.
REPEATABLE = ["dflash2", "dflash2+k4v"]


@pytest.mark.claim("counters.metrics", source="upstream metrics", each="judged", on="mixed")
def test_timings_agree_with_metrics(arm: str, cells: CellMap, claim: Judge) -> None:
    def problem(g: Generation) -> str | None:
        timed = (g.timings.draft_n, g.timings.draft_n_accepted, g.timings.predicted_n)
        counted = (g.counted.draft_tokens, g.counted.accepted_tokens, g.counted.predicted_tokens)
        return None if timed == counted else f"timings say {timed}, /metrics {counted} (drafted, accepted, predicted)"

    _none(claim, cells[arm].generations, problem, "timings and /metrics agree")


@pytest.mark.claim("counters.accepted", source="upstream metrics", each="judged", on="mixed")
def test_accepted_never_exceeds_drafted_and_adds_up_by_position(arm: str, cells: CellMap, claim: Judge) -> None:
    def problem(g: Generation) -> str | None:
        by_position = g.counted.accepted_per_position
        if g.counted.accepted_tokens > g.counted.draft_tokens:
            return f"{g.counted.accepted_tokens} accepted of {g.counted.draft_tokens} drafted"
        if sum(by_position) != g.counted.accepted_tokens or list(by_position) != sorted(by_position, reverse=True):
            return f"{g.counted.accepted_tokens} accepted, by position {list(by_position)}"
        return None

    _none(claim, cells[arm].generations, problem, "accepted ≤ drafted, falling by position")


@pytest.mark.claim("counters.cycles", source="cycle accounting", each="judged", on="mixed")
def test_cycles_account_for_every_draft(arm: str, cells: CellMap, claim: Judge) -> None:
    def problem(g: Generation) -> str | None:
        # What a draft holds behind the reply's own end may be counted as accepted, though it is not returned.
        behind_the_end = 0 if g.stop_type is StopType.LIMIT else len(g.counted.accepted_per_position)
        undrafted = g.cycles - g.counted.drafts
        return f"{g.cycles} cycles, {g.counted.drafts} of them drafting" if undrafted < -behind_the_end else None

    _none(claim, cells[arm].generations, problem, "as many cycles as drafts, or more")


@pytest.mark.claim("counters.returned", source="upstream API", kind="exact", each="judged", over="base", on="mixed")
def test_as_many_tokens_are_returned_as_counted(arm: str, cells: CellMap, claim: Judge) -> None:
    _none(claim, _whose_base_is(True, cells, arm), _missing, "tokens returned = tokens counted")


@pytest.mark.claim("counters.split", source="upstream API", kind="exact", each="judged", over="base", on="mixed")
def test_the_tokens_of_a_split_character_are_returned(arm: str, cells: CellMap, claim: Judge) -> None:
    _none(claim, _whose_base_is(False, cells, arm), _missing, "tokens returned = tokens counted")


@pytest.mark.claim("counters.repeat", source="upstream reports", each=REPEATABLE, on="repeat")
def test_the_same_request_has_the_same_counters(arm: str, cells: CellMap, claim: Judge) -> None:
    requests = defaultdict(list)
    for generation in cells[arm].generations:
        requests[generation.prompt_id.partition("#")[0]].append(generation)
    drafts = cells[arm].drafts
    claim.holds(drafts > 0, measured="no drafts", expected="drafts to compare", otherwise=Reason.DRAFTER_IDLE)
    changed = [prompt for prompt, repeats in requests.items() if len({g.tokens for g in repeats}) > 1]
    claim.holds(
        not changed,
        measured=f"{len(changed)} of {len(requests)} requests have other tokens when repeated",
        expected="the same tokens each time",
        otherwise=Reason.TOKENS_DIFFER,
        detail=", ".join(changed),
    )
    differing = [
        f"{prompt}: " + "; ".join(f"{g.counters}" for g in repeats)
        for prompt, repeats in requests.items()
        if any(g.counters != repeats[0].counters for g in repeats)
    ]
    claim.holds(
        not differing,
        measured=f"{len(requests)} requests, {drafts} drafts, {len(differing)} requests differ",
        expected="the same counters each time",
        otherwise=Reason.COUNTERS_DISAGREE,
        detail="\n".join(differing),
    )


def _whose_base_is(complete: bool, cells: CellMap, arm: str) -> list[Generation]:
    """The arm's replies where the target alone returned all its tokens, or where even it did not."""
    pairs = zip(cells["base"].generations, cells[arm].generations, strict=True)
    return [reply for base, reply in pairs if base.complete is complete]


def _missing(g: Generation) -> str | None:
    return None if g.complete else f"{len(g.tokens)} returned, {g.timings.predicted_n} counted"


def _none(
    claim: Judge, generations: Sequence[Generation], problem: Callable[[Generation], str | None], expected: str
) -> None:
    if not generations:
        nothing = Finding(Status.NOT_JUDGED, Reason.NOT_ENOUGH_EVIDENCE, "no such reply", expected)
        claim.judge(nothing)
    problems = [f"{g.prompt_id}: {words}" for g in generations if (words := problem(g)) is not None]
    claim.holds(
        not problems,
        measured=f"{len(problems)} of {len(generations)} requests disagree",
        expected=expected,
        otherwise=Reason.COUNTERS_DISAGREE,
        detail="\n".join(problems),
        evidence={"requests": len(generations), "problems": problems},
    )
