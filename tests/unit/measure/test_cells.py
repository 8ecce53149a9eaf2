"""Each cell is measured once, failures included, and read back from the run directory. On the embedded server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.errors import ClientError, LedgerError
from pytest_specdec.measure.cells import Cells
from pytest_specdec.measure.failures import CellFailedError
from pytest_specdec.measure.ledger import Ledger
from pytest_specdec.measure.servers import LaunchedServers
from pytest_specdec.profile import compose, load
from pytest_specdec.records import CellKey, Mode, Reason, Status
from pytest_specdec.server.build import locate
from pytest_specdec.server.stream import Arrivals
from pytest_specdec.workloads import load as load_workload
from tests.support import build_with_fault, generation, small_profile

KEY = CellKey(Mode.EXACT, "mixed", "dflash2")
BASE = CellKey(Mode.EXACT, "mixed", "base")


class Bench:
    """The cells of one run directory, and how many servers were started for them."""

    def __init__(self, directory: Path, server: str = "embedded") -> None:
        profile = load(str(small_profile(directory)))
        self.ledger = Ledger(directory / "run")
        self.servers = LaunchedServers(locate(server), profile, self.ledger)
        self.cells = Cells(
            lambda _role: self.servers,
            self.ledger,
            lambda name: load_workload(profile, name),
            lambda name: compose(profile, name),
            profile.stall_timeout_s,
            lambda _words: None,
        )

    @property
    def started(self) -> int:
        return len(list((self.ledger.directory / "logs").glob("*.log")))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.servers.close()


def test_a_cell_is_measured_once_kept_and_read_back(bench: Bench, tmp_path: Path) -> None:
    cell = bench.cells.get(KEY)
    assert bench.cells.get(KEY) is cell
    assert bench.started == 1
    assert [g.prompt_id for g in cell.generations] == list(dict.fromkeys(g.prompt_id for g in cell.generations))
    assert cell.drafted > 0
    assert all(len(g.tokens) == g.timings.predicted_n and g.counters for g in cell.generations)
    assert not cell.generations[0].alternatives  # with a drafter their log probabilities mean nothing
    assert cell.log

    again = Bench(tmp_path)
    assert again.cells.get(KEY) == cell
    assert again.started == 1


def test_what_is_abandoned_is_hung_up_on_and_leaves_no_failure(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is to stop may wait for the end of its reply, and its reader for the end of the server."""
    keep = Arrivals.keep

    def keep_abandoned(arrivals: Arrivals, *more: Any) -> None:
        bench.cells.abandon()
        keep(arrivals, *more)

    monkeypatch.setattr(Arrivals, "keep", keep_abandoned)
    with pytest.raises(ClientError):
        bench.cells.get(KEY)
    assert bench.ledger.cells() == {}


def test_base_tells_its_second_choices(bench: Bench) -> None:
    cell = bench.cells.get(BASE)
    assert cell.drafted == 0
    assert all(len(g.alternatives) == len(g.tokens) for g in cell.generations)


def test_a_failure_is_kept_too(tmp_path: Path) -> None:
    server = str(build_with_fault(tmp_path, 'print("cannot load", flush=True); sys.exit(1)'))
    bench = Bench(tmp_path, server)
    with pytest.raises(CellFailedError) as first:
        bench.cells.get(KEY)
    with pytest.raises(CellFailedError) as second:
        bench.cells.get(KEY)
    with pytest.raises(CellFailedError) as read_back:
        Bench(tmp_path, server).cells.get(KEY)
    assert first.value is second.value
    assert bench.started == 1
    assert vars(read_back.value) == vars(first.value)
    assert (first.value.status, first.value.reason) == (Status.NOT_JUDGED, Reason.ARM_UNAVAILABLE)
    assert "cannot load" in first.value.detail
    bench.servers.close()


def test_only_the_last_attempt_of_a_killed_run_counts(bench: Bench, tmp_path: Path) -> None:
    bench.ledger.append(generation(cell=KEY, prompt_id="of the killed run"))
    cell = bench.cells.get(KEY)
    assert "of the killed run" not in {g.prompt_id for g in cell.generations}
    assert Bench(tmp_path).cells.get(KEY) == cell


def test_a_damaged_ledger_is_not_taken_for_a_measurement(bench: Bench, tmp_path: Path) -> None:
    bench.cells.get(KEY)
    path = bench.ledger.directory / "generations.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(LedgerError, match="1 generations are not those of the workload's 2 prompts"):
        Bench(tmp_path).cells.get(KEY)


KILLED = 'print("loading", flush=True); os.kill(os.getpid(), 9)'


def test_a_failure_that_was_the_machines_holds_until_the_run_is_gone_on_with(tmp_path: Path) -> None:
    server = build_with_fault(tmp_path, KILLED)
    for _ in range(2):
        with pytest.raises(CellFailedError) as caught:
            Bench(tmp_path, str(server)).cells.get(KEY)
        assert (caught.value.status, caught.value.reason) == (Status.VOID, Reason.SERVER_FAILED)
    again = Bench(tmp_path, str(build_with_fault(tmp_path, "")))
    assert again.started == 1
    again.ledger.reopen_void()
    assert again.cells.get(KEY).drafted > 0
    again.servers.close()
    assert Bench(tmp_path).cells.get(KEY) == again.cells.get(KEY)
    assert again.started == 2
