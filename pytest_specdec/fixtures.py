"""What a suite may ask for. Imports what it needs only when a claim's test runs, since every pytest run loads this."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.keys import CLAIM, JUDGE, RUN

if TYPE_CHECKING:
    from pytest_specdec.asking import CellMap, LiveArm, MemoryMap
    from pytest_specdec.comparing import Lossless
    from pytest_specdec.contrasting import ContrastView
    from pytest_specdec.judge import BaselineJudge, Judge
    from pytest_specdec.prefix import CommonPrefix
    from pytest_specdec.records import Cell, CellKey, Claim
    from pytest_specdec.session import Run

__all__ = ["arm", "baseline", "cells", "claim", "contrast", "lossless", "memory", "prefixes", "server"]


@pytest.fixture
def claim(request: pytest.FixtureRequest) -> Judge:
    """The claim under judgement: ``claim.holds(condition, measured=…, expected=…)`` and ``claim.judge(finding)``."""
    return _state(request)[2]


@pytest.fixture
def arm(request: pytest.FixtureRequest) -> str:
    """The arm that a claim with ``each=`` is repeated for."""
    name: str = request.param
    return name


@pytest.fixture
def cells(request: pytest.FixtureRequest) -> CellMap:
    """The measured cells of the declared arms: ``cells["dflash2"]``, or ``cells.on("code")["dflash2"]``."""
    from pytest_specdec.asking import CellMap
    from pytest_specdec.records import Mode

    run, declared, judge = _state(request)

    def get(key: CellKey) -> Cell:
        judge.measured_something = True
        cell = run.panels.cell(key) if key.mode is Mode.SPEED else run.cells.get(key)
        judge.cells.append(cell)
        return cell

    return CellMap(declared, get)


@pytest.fixture
def contrast(request: pytest.FixtureRequest) -> ContrastView:
    """The declared arm over the declared reference: ``baseline.holds(contrast.throughput)``."""
    from pytest_specdec.contrasting import ContrastView

    run, declared, judge = _state(request)
    return ContrastView(declared, run, judge)


@pytest.fixture
def baseline(request: pytest.FixtureRequest) -> BaselineJudge:
    """The claim's stored entry: ``baseline.holds(value, unit=…)`` compares with it or records it."""
    from pytest_specdec.judge import BaselineJudge

    run, _, judge = _state(request)
    return BaselineJudge(judge, run)


@pytest.fixture
def lossless(request: pytest.FixtureRequest) -> Lossless:
    """Judges tokens against the target's own, up to ties within the measured noise: ``lossless.same(base, cell)``."""
    from pytest_specdec.comparing import Lossless

    run, _, judge = _state(request)
    return Lossless(run, judge, request.config.rootpath)


@pytest.fixture
def memory(request: pytest.FixtureRequest, cells: CellMap) -> MemoryMap:
    """What the servers of the declared arms take: ``memory["dflash2"].peak_mib``, ``memory.extra(arm, over)``."""
    from pytest_specdec.asking import MemoryMap

    return MemoryMap(cells, _state(request)[2])


@pytest.fixture
def prefixes(request: pytest.FixtureRequest) -> CommonPrefix:
    """Two builds' replies again where they part, as long as both say the same: ``prefixes.of(builds)``."""
    from pytest_specdec.prefix import CommonPrefix

    return CommonPrefix(_state(request)[0])


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[LiveArm]:
    """Live servers of the declared arms: ``server.start()`` gives a client of a fresh one, stopped at the end."""
    from pytest_specdec.asking import LiveArm

    run, declared, judge = _state(request)
    with ExitStack() as stack:
        yield LiveArm(declared, run, judge, stack)


def _state(request: pytest.FixtureRequest) -> tuple[Run, Claim, Judge]:
    from pytest_specdec.errors import SuiteError

    item: pytest.Item = request.node
    if CLAIM not in item.stash:
        raise SuiteError(
            f"giving the fixture {request.fixturename} to {item.nodeid}",
            "the test declares no claim",
            'mark it with @pytest.mark.claim("…", source="…", arm="…")',
        )
    return item.config.stash[RUN], item.stash[CLAIM], item.stash[JUDGE]
