"""A coding session of 18 turns. Turns 1–9 build, 10–18 maintain; turn 10 asks for a whole file again.

Greedy, with the assistant's turns replayed from ``base``, so that every arm reads the same context. The study's own
form, in which every arm draws its replies, is reported.
"""

from dataclasses import replace

import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge, Judge
from pytest_specdec.measure.guards import short_session
from pytest_specdec.records import Cell, FigureKind

BUILD_TURNS = 9


@pytest.mark.claim("session.dflash2", source="study 4", arm="dflash2", over="base", on="session", group="build")
def test_dflash2_alone(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("session.k4v", source="study 4", arm="dflash2+k4v", over="base", on="session", group="build")
def test_dflash2_with_the_map(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim(
    "session.k4v_beats_both", source="study 4", arm="dflash2+k4v", over="dflash2+mod+k4v", on="session", group="build"
)
def test_the_map_alone_beats_both_tables(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim(
    "session.mod_is_weakest", source="study 4", arm="dflash2+mod+k4v", over="dflash2+mod", on="session", group="build"
)
def test_the_mod_table_is_the_weakest_combination(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim(
    "session.recommended", source="study, recommended", arm="dflash2+k4v@5", over="base", on="session", group="build"
)
def test_the_recommended_configuration_for_sessions(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim("session.all_turns", source="study 5", arm="dflash2+k4v", over="base", on="session", study=True)
def test_all_turns_read_higher_than_the_build_phase(contrast: ContrastView, baseline: BaselineJudge) -> None:
    """Turn 10 inflates it, so this is never the figure to quote."""
    baseline.holds(contrast.throughput)


@pytest.mark.claim(
    "session.turn_10", source="study 5", arm="dflash2+k4v", over="base", on="session", group="repeat", study=True
)
def test_turn_10_is_almost_all_draftable(contrast: ContrastView, baseline: BaselineJudge) -> None:
    baseline.holds(contrast.throughput)


@pytest.mark.claim(
    "session.sampled", source="study 4", kind="speed", arms=["base", "dflash2", "dflash2+k4v", "dflash2+mod+k4v"],
    on="session-sampled", study=True,
)  # fmt: skip
def test_the_sampled_session_is_reported(cells: CellMap, claim: Judge) -> None:
    """Each arm and run has other texts: the ratios say what was seen, never that a build is slower."""
    lengths = {arm: _tokens_per_conversation(cell) for arm, cell in cells.items()}
    for arm, cell in cells.items():
        short = short_session(lengths[arm], [tokens for name, tokens in lengths.items() if name != arm])
        claim.valid(replace(cell, voids=(*cell.voids, *([short] if short else []))), FigureKind.SPEED)
    build = {arm: _tokens_per_s(cell, BUILD_TURNS) for arm, cell in cells.items()}
    every = {arm: _tokens_per_s(cell) for arm, cell in cells.items()}
    valid = sum(len(cell.valid_for(FigureKind.SPEED)) for cell in cells.values())
    total = sum(len(cell.generations) for cell in cells.values())
    ratios = ", ".join(f"{arm} ×{speed / build['base']:.2f}" for arm, speed in build.items() if arm != "base")
    claim.reports(
        f"build phase: base {build['base']:.1f} tokens/s, {ratios}",
        f"each arm drew its own replies, so no two read the same text; {valid} of {total} replies are valid",
        {f"{arm}, {part}": speed for part, speeds in (("build phase", build), ("all turns", every))
         for arm, speed in speeds.items()},
    )  # fmt: skip


def _tokens_per_conversation(cell: Cell) -> int:
    return cell.tokens // max(1, len({g.block for g in cell.generations}))


def _tokens_per_s(cell: Cell, turns: int | None = None) -> float:
    """Over the valid replies to the first turns of each conversation; NaN without any."""
    replies = [
        g for g in cell.valid_for(FigureKind.SPEED) if turns is None or int(g.prompt_id.rpartition("-")[2]) <= turns
    ]
    decode_ms = sum(g.timings.predicted_ms for g in replies)
    return 1000 * sum(g.timings.predicted_n - 1 for g in replies) / decode_ms if decode_ms > 0 else float("nan")
