"""How many tokens a drafter drafts per drafting cycle: from counters, never from the banner."""

import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.judge import Judge
from pytest_specdec.records import Generation, Reason

WIDTHS = [f"dflash2@{n}" for n in range(1, 8)]
CLAMP = "clamping to 7"


@pytest.mark.claim("width.block", source="study 8", each=["dflash2", "dflash2@15"], on="width")
def test_width_never_exceeds_the_block(arm: str, cells: CellMap, claim: Judge) -> None:
    _at_most(claim, cells[arm].generations, 7, "block size − 1")


@pytest.mark.claim("width.n_max", source="study 7, 8", each=WIDTHS, on="width")
def test_width_never_exceeds_n_max(arm: str, cells: CellMap, claim: Judge) -> None:
    _at_most(claim, cells[arm].generations, int(arm.rpartition("@")[2]), "n_max")


@pytest.mark.claim("width.clamp", source="study 8", arms=["dflash2@7", "dflash2@15"], on="width")
def test_n_max_15_drafts_exactly_as_7(cells: CellMap, claim: Judge) -> None:
    at_7, at_15 = cells["dflash2@7"], cells["dflash2@15"]
    claim.holds(at_7.drafts > 0, measured="no drafts", expected="drafts to compare", otherwise=Reason.DRAFTER_IDLE)
    if at_15.log is not None:
        claim.holds(
            CLAMP in at_15.log,
            measured="a warning in the log" if CLAMP in at_15.log else "no warning in the log",
            expected=f"a warning with {CLAMP!r}",
            otherwise=Reason.CLAMP_UNREPORTED,
        )
    differing = [
        late.prompt_id
        for early, late in zip(at_7.generations, at_15.generations, strict=True)
        if early.counters != late.counters or early.tokens != late.tokens
    ]
    claim.holds(
        not differing,
        measured=f"{at_15.drafted} tokens in {at_15.drafts} drafts, counters differ on {len(differing)} prompts",
        expected=f"the {at_7.drafted} tokens in {at_7.drafts} drafts of n_max 7",
        otherwise=Reason.WIDTH_DIFFERS,
        detail="differing prompts: " + ", ".join(differing),
    )


def _at_most(claim: Judge, generations: tuple[Generation, ...], limit: int, what: str) -> None:
    """No draft exceeds the limit: not on average, and no position behind it was ever accepted."""
    beyond = [
        f"{g.prompt_id}: {g.counted.draft_tokens} tokens in {g.counted.drafts} drafts, "
        f"accepted by position {list(g.counted.accepted_per_position)}"
        for g in generations
        if g.counted.draft_tokens > limit * g.counted.drafts or any(g.counted.accepted_per_position[limit:])
    ]
    drafted, drafts = (sum(getattr(g.counted, name) for g in generations) for name in ("draft_tokens", "drafts"))
    claim.holds(drafts > 0, measured=f"{drafts} drafts", expected="drafts to measure", otherwise=Reason.DRAFTER_IDLE)
    claim.holds(
        not beyond,
        measured=f"width {drafted / drafts:.2f} over {drafts} drafts",
        expected=f"at most {limit} ({what})",
        otherwise=Reason.WIDTH_EXCEEDED,
        detail="\n".join(beyond),
        evidence={"draft_tokens": drafted, "drafts": drafts, "limit": limit},
    )
