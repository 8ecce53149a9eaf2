"""The background readings, on this machine's CPU, and the file that they leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specdec.device.isolation import processes_of, wait_for_release
from pytest_specdec.device.reader import NoNvidia, list_devices, open_device
from pytest_specdec.device.samples import ComputeProcess, Sample
from pytest_specdec.device.telemetry import Telemetry, read_telemetry
from pytest_specdec.errors import DeviceError, LedgerError

SAMPLER = """
import sys, time
from pathlib import Path
from pytest_specdec.device.reader import NoNvidia
from pytest_specdec.device.telemetry import Telemetry
with Telemetry(NoNvidia(), Path(sys.argv[1]), rate_hz=100.0):
    time.sleep(60)
"""
# A server of a known size, started by a launcher, as `numactl` or a shell would.
SERVER = "block = b'x' * (64 << 20); print(len(block), flush=True); input()"
LAUNCHER = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


class Failing(NoNvidia):
    """A device that can be read a few times."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.good = good

    def sample(self, *, with_processes: bool = True) -> Sample:
        self.good -= 1
        if self.good < 0:
            raise DeviceError("read the power", "GPU is lost", "restart the machine")
        return super().sample(with_processes=with_processes)


def wait_for_samples(path: Path, number: int) -> None:
    deadline_s = time.monotonic() + 30.0
    while not path.exists() or len(read_telemetry(path)) < number:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_readings_are_appended_while_it_runs_and_end_with_it(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    before = threading.active_count()
    with Telemetry(NoNvidia(), path, rate_hz=100.0) as telemetry:
        wait_for_samples(path, 5)
        telemetry.stop()
        samples = read_telemetry(path)
    assert threading.active_count() == before
    assert read_telemetry(path) == samples
    assert [s.at_ns for s in samples] == sorted(s.at_ns for s in samples)
    assert all(s.memory_total_mib and s.load_1m is not None and s.cpu_busy_s for s in samples)
    header = json.loads(path.read_text().splitlines()[0])
    assert header["device"]["key"] == "cpu"
    assert header["unix_s"] == pytest.approx(time.time(), abs=60.0)
    assert telemetry.cost.samples == len(samples)
    assert 0 < telemetry.cost.mean_us <= telemetry.cost.max_us


def test_a_generation_knows_the_memory_of_its_server(tmp_path: Path) -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as launcher,
        Telemetry(NoNvidia(), tmp_path / "telemetry.jsonl", rate_hz=1e-3) as telemetry,
    ):
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == f"{64 << 20}\n"
        server = processes_of(launcher.pid)
        assert len(server) == 2
        telemetry.watch(process.pid for process in server)
        started_ns = time.perf_counter_ns()
        telemetry.sample_now()
        summary = telemetry.summary(started_ns, time.perf_counter_ns())
        assert wait_for_release(NoNvidia(), server, None, limit_s=0.0).alive == tuple(p.pid for p in server)
        launcher.communicate("\n")
        assert wait_for_release(NoNvidia(), server, None, limit_s=10.0).done
        telemetry.sample_now()  # of processes that are gone
    assert summary.samples == 1
    assert summary.server_rss_mib_max is not None
    assert 64.0 < summary.server_rss_mib_max < 256.0


def test_the_work_of_others_is_told_from_that_of_the_server(tmp_path: Path) -> None:
    spin = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    with (
        subprocess.Popen([sys.executable, "-c", spin]) as process,
        Telemetry(NoNvidia(), tmp_path / "ours.jsonl", rate_hz=1e-3) as ours,
        Telemetry(NoNvidia(), tmp_path / "foreign.jsonl", rate_hz=1e-3) as foreign,
    ):
        try:
            ours.watch([process.pid])
            foreign.watch([os.getpid()])
            started_ns = time.perf_counter_ns()
            for pause_s in (1.0, 0.0):
                ours.sample_now()
                foreign.sample_now()
                time.sleep(pause_s)
            shares = [t.summary(started_ns, time.perf_counter_ns()).foreign_cpu_share for t in (foreign, ours)]
        finally:
            process.kill()
    assert shares[0] is not None
    assert shares[1] is not None
    assert shares[0] > shares[1] + 0.1 / (os.cpu_count() or 1)


def test_our_own_work_is_not_taken_for_that_of_others(tmp_path: Path) -> None:
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle,
        Telemetry(NoNvidia(), tmp_path / "telemetry.jsonl", rate_hz=1e-3) as telemetry,
    ):
        telemetry.watch([idle.pid])
        before_s = telemetry.sample_now().ours_cpu_s
        until_s = time.process_time() + 0.3
        while time.process_time() < until_s:
            pass
        after_s = telemetry.sample_now().ours_cpu_s
        idle.communicate(b"\n")
    assert before_s is not None
    assert after_s is not None
    assert after_s - before_s >= 0.3


def test_a_generation_between_two_readings_gets_one_of_its_own(tmp_path: Path) -> None:
    with Telemetry(NoNvidia(), tmp_path / "telemetry.jsonl", rate_hz=1e-3) as telemetry:
        time.sleep(0.3)
        now_ns = time.perf_counter_ns()
        assert telemetry.summary(now_ns - 1000, now_ns).samples == 1
        assert len(read_telemetry(tmp_path / "telemetry.jsonl")) == 2


def test_a_reading_that_fails_ends_the_sampling_and_no_summary_is_made_any_more(tmp_path: Path) -> None:
    def check_until_it_fails(telemetry: Telemetry) -> None:
        deadline_s = time.monotonic() + 30.0
        while time.monotonic() < deadline_s:
            telemetry.check()
            time.sleep(0.01)

    with Telemetry(Failing(3), tmp_path / "telemetry.jsonl", rate_hz=200.0) as telemetry:
        with pytest.raises(DeviceError, match="GPU is lost"):
            check_until_it_fails(telemetry)
        with pytest.raises(DeviceError, match="GPU is lost"):
            telemetry.summary(0, time.perf_counter_ns())
    assert len(read_telemetry(tmp_path / "telemetry.jsonl")) == 3


def test_a_slow_device_is_asked_less_often(tmp_path: Path) -> None:
    class Slow(NoNvidia):
        def sample(self, *, with_processes: bool = True) -> Sample:
            time.sleep(0.02)
            return super().sample(with_processes=with_processes)

    with Telemetry(Slow(), tmp_path / "telemetry.jsonl", rate_hz=100.0):
        time.sleep(0.5)
    # 2 % of the time at 20 ms each is one a second, where 100 Hz would have been some twenty.
    assert len(read_telemetry(tmp_path / "telemetry.jsonl")) <= 3


def test_the_file_stays_readable_after_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    with subprocess.Popen([sys.executable, "-c", SAMPLER, str(path)]) as sampler:
        try:
            wait_for_samples(path, 20)
        finally:
            sampler.kill()
    assert len(read_telemetry(path)) >= 20


def test_a_half_written_last_line_is_passed_over_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    path.write_text('{"telemetry":1}\n{"at_ns":1}\n{"at_ns":2,"tempera')
    assert read_telemetry(path) == [Sample(1)]
    path.write_text('{"telemetry":1}\n{"at_n\n{"at_ns":2}\n')
    with pytest.raises(LedgerError, match="line 2"):
        read_telemetry(path)
    path.write_text('{"at_ns":2,"unheard_of":1}\n')
    with pytest.raises(LedgerError, match="unheard_of"):
        read_telemetry(path)


def test_a_file_that_cannot_be_written_or_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="telemetry"):
        Telemetry(NoNvidia(), tmp_path / "nowhere" / "telemetry.jsonl").start()
    with pytest.raises(LedgerError, match="nowhere"):
        read_telemetry(tmp_path / "nowhere")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_an_error_and_not_a_silent_end() -> None:
    with pytest.raises(LedgerError, match="free some space"):
        Telemetry(NoNvidia(), Path("/dev/full")).start()


def test_samples_survive_the_way_through_the_file() -> None:
    full = Sample(
        5, 50, 2400, 14000, 310.5, 600.0, 97.0, 1024.0, 2048.0, 4, (ComputeProcess(7, None),), 1.5, 9.0, 5.0, 5.5, 2.5
    )
    for sample in (full, Sample(5), replace(full, processes=())):
        assert Sample.from_json(json.loads(json.dumps(sample.to_json()))) == sample


def test_the_cpu_is_a_device_by_name_and_gpus_are_hidden_only_when_it_was_chosen() -> None:
    chosen = open_device("cpu").identity
    assert (chosen.key, chosen.name, chosen.environment) == ("cpu", "cpu", {"CUDA_VISIBLE_DEVICES": ""})
    assert NoNvidia().identity.environment == {}
    assert len(list_devices()) >= 1
