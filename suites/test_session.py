"""A coding session of 18 turns. Turns 1–9 build, 10–18 maintain; turn 10 asks for a whole file again.

Greedy, with the assistant's turns replayed from ``base``, so that every arm reads the same context.
"""

import pytest

from pytest_specdec.contrasting import ContrastView
from pytest_specdec.judge import BaselineJudge


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
