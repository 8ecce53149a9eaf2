"""Every guard fired by a real server: that its unit test's figures are what a server really gives.

Those over the timing of a whole panel (``clock_drift``, ``order_effect``, ``autocorrelated``) are in
``test_real_decisions.py``, for a machine to itself; ``hot_start`` and ``throttled`` need a GPU: ``tests/gpu``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specdec.measure.cells import synthetic_voids
from pytest_specdec.measure.guards import baseline_mismatch, drafter_idle, generation_voids, short_session
from pytest_specdec.measure.ledger import Ledger
from pytest_specdec.measure.pair_guards import pair_length_mismatch
from pytest_specdec.measure.servers import LaunchedServers
from pytest_specdec.profile import compose, load
from pytest_specdec.records import Arm, Cell, CellKey, FigureKind, Generation, Json, Mode, Reason
from pytest_specdec.server.build import locate
from pytest_specdec.server.client import Client
from pytest_specdec.server.process import AttachedServer
from pytest_specdec.stats.contrast import pair_up
from pytest_specdec.workloads import load as load_workload

PROFILE = load("tiny")
GREEDY: Mapping[str, Json] = {"temperature": 0.0, "cache_prompt": False}
PROSE = "There is a story about the harbor wall that is told only in winter."
LOOPING = "\n" * 6


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[LaunchedServers]:
    launched = LaunchedServers(locate("embedded"), PROFILE, Ledger(tmp_path / "run"))
    yield launched
    launched.close()


@contextmanager
def client_of(servers: LaunchedServers, arm: str | Arm = "base", **flags: Json) -> Iterator[Client]:
    named = compose(PROFILE, arm) if isinstance(arm, str) else arm
    extra = {"--" + name.replace("_", "-"): value for name, value in flags.items()}
    with servers.running(named, Mode.EXACT, extra) as server, Client(server, PROFILE.stall_timeout_s) as client:
        yield client


def reasons(generation: Generation, **knowledge: int | bool | None) -> set[Reason]:
    return {void.reason for void in generation_voids(generation, **knowledge)}  # type: ignore[arg-type]


def cell_of(arm: str, *generations: Generation) -> Cell:
    key = CellKey(Mode.SPEED, "live", arm)
    return Cell(key, tuple(replace(g, cell=key, ordinal=number) for number, g in enumerate(generations)))


def test_a_loop_behind_the_natural_stop(servers: LaunchedServers) -> None:
    with client_of(servers) as client:
        generation = client.generate(LOOPING, {**GREEDY, "n_predict": 1000, "ignore_eos": True})
    assert Reason.DEGENERATE_LOOP in reasons(generation)


def test_a_reply_that_ends_at_once(servers: LaunchedServers) -> None:
    with client_of(servers) as client:
        generation = client.generate(PROSE, {**GREEDY, "n_predict": 64, "stop": ["e"]})
    assert reasons(generation) == {Reason.EARLY_STOP}


def test_a_tool_call(servers: LaunchedServers) -> None:
    grammar = 'root ::= "<tool_call>\\n{\\"name\\": \\"search\\", \\"arguments\\": {}}\\n</tool_call>"'
    with client_of(servers) as client:
        generation = client.generate(PROSE, {**GREEDY, "n_predict": 128, "grammar": grammar})
    assert Reason.TOOL_CALL in reasons(generation)


def test_a_prompt_out_of_the_cache(servers: LaunchedServers) -> None:
    request = {**GREEDY, "n_predict": 24, "cache_prompt": True, "ignore_eos": True}
    with client_of(servers) as client:
        first, second = (client.generate(PROSE, request) for _ in range(2))
    assert Reason.CACHE_HIT not in reasons(first)
    assert Reason.CACHE_HIT in reasons(second)
    assert Reason.CACHE_HIT not in reasons(second, warm=True)


def test_a_forced_length_that_was_not_kept(servers: LaunchedServers) -> None:
    with client_of(servers) as client:
        generation = client.generate(PROSE, {**GREEDY, "n_predict": 32, "ignore_eos": True})
    assert Reason.LENGTH_MISMATCH in reasons(generation, forced_tokens=48)
    assert Reason.LENGTH_MISMATCH not in reasons(generation, forced_tokens=32)


def test_a_context_that_is_too_small(servers: LaunchedServers) -> None:
    with client_of(servers, ctx_size=256) as client:
        generation = client.generate(PROSE, {**GREEDY, "n_predict": 600, "ignore_eos": True})
    assert Reason.TRUNCATED in reasons(generation)


def test_counters_of_somebody_elses_request(servers: LaunchedServers) -> None:
    """Another request in flight makes the deltas of the metrics count for two."""
    request = {**GREEDY, "n_predict": 96, "ignore_eos": True}
    with client_of(servers, "dflash2", parallel=2) as client, ThreadPoolExecutor(1) as pool:
        client.generate(PROSE, {**GREEDY, "n_predict": 8})
        other = pool.submit(client.stream, PROSE, {**request, "n_predict": 32})
        generation = client.generate(PROSE, request)
        other.result()
    assert Reason.COUNTERS_INCONSISTENT in reasons(generation)


def test_a_server_that_was_restarted_in_between(servers: LaunchedServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same port and key, another process: only the counters tell."""
    request = {**GREEDY, "n_predict": 64, "ignore_eos": True}
    with client_of(servers) as client:
        url, key = client.server.url, client.server.api_key
    monkeypatch.setattr("pytest_specdec.measure.servers.pick_port", lambda: int(url.rpartition(":")[2]))
    monkeypatch.setattr("pytest_specdec.measure.servers.new_api_key", lambda: key)
    with Client(AttachedServer("base", url, key), PROFILE.stall_timeout_s) as across:
        with client_of(servers):
            across.generate(PROSE, request)
        with client_of(servers):
            generation = across.generate(PROSE, {**request, "n_predict": 16})
    assert Reason.SERVER_RESTARTED in reasons(generation)


def test_a_drafter_that_never_drafts(servers: LaunchedServers) -> None:
    arm = compose(PROFILE, "dflash2")
    certain = replace(arm, flags={**arm.flags, "--spec-draft-p-min": 1.0})
    with client_of(servers, certain) as client:
        generation = client.generate(PROSE, {**GREEDY, "n_predict": 48, "ignore_eos": True})
    void = drafter_idle(cell_of("dflash2", generation), arm)
    assert void is not None
    assert void.reason is Reason.DRAFTER_IDLE


def test_acceptance_that_is_made_up(tmp_path: Path) -> None:
    """The server takes the flag and answers; what it is run with says that its figures are nobody's."""
    made_up = LaunchedServers(locate("embedded"), PROFILE, Ledger(tmp_path / "run"), arm_args=("--spec-synth-len", "4"))
    arm = compose(PROFILE, "dflash2")
    with made_up.running(arm, Mode.EXACT) as server, Client(server, PROFILE.stall_timeout_s) as client:
        generation = client.generate(PROSE, {**GREEDY, "n_predict": 64, "ignore_eos": True})
    made_up.close()
    assert generation.timings.draft_n_accepted > 0
    (void,) = synthetic_voids(made_up, arm)
    assert void.figures == {FigureKind.SPEED, FigureKind.ACCEPTANCE}


def test_a_session_that_took_another_course(servers: LaunchedServers) -> None:
    request = {**GREEDY, "n_predict": 96, "ignore_eos": True}
    with client_of(servers) as client:
        siblings = [client.generate(PROSE, request).timings.predicted_n for _ in range(2)]
        stopped = client.generate(PROSE, {**request, "stop": ["e"]}).timings.predicted_n
    void = short_session(stopped, siblings)
    assert void is not None
    assert void.reason is Reason.SHORT_SESSION


def test_sides_of_a_pair_at_other_depths(servers: LaunchedServers) -> None:
    request = {**GREEDY, "ignore_eos": True}
    with client_of(servers) as client:
        short, long = (client.generate(PROSE, {**request, "n_predict": n}, prompt_id="p") for n in (32, 96))
    (pair,) = pair_up(cell_of("base", short), cell_of("dflash2", long))
    void = pair_length_mismatch(pair)
    assert void is not None
    assert void.reason is Reason.LENGTH_MISMATCH


def test_a_workload_that_is_not_the_recorded_one() -> None:
    workload = load_workload(PROFILE, "code")
    changed = replace(PROFILE, workloads={**PROFILE.workloads, "code": {**PROFILE.workloads["code"], "n_predict": 95}})
    void = baseline_mismatch({"workload": workload.sha256}, {"workload": load_workload(changed, "code").sha256})
    assert void is not None
    assert void.figures == set(FigureKind)
