"""Whole runs on a GPU in trouble: a scripted card, the real pynvml, real servers. No GPU takes part, nothing is timed.

The script's clock moves when the run has come to a certain point, so that a busy machine changes nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from pytest_specdec.device.reader import has_all_cores
from pytest_specdec.device.telemetry import read_telemetry
from tests.scripted_gpu import CARD, COOL, ScriptedGpu, library
from tests.support import (
    PATIENCE_S,
    ROOT,
    build_with_fault,
    clean_environment,
    eventually,
    gate,
    lines_of,
    new_run,
    results_of,
    speed_profile,
)

CARD_WITH_A_TEMPERATURE = """
[server]
stop_timeout_s = 3

[thermal]
arm_start_c = 45
throttle_pause_s = 0.2

[workloads.mixed]
prompts = 2
n_predict = 24
"""
FOREIGN_SHARE = 0.05
CLAIM = "suites/test_speedup.py::test_dflash2_doubles_single_turn_code"
EXACT = "suites/test_counters.py::test_timings_agree_with_metrics[dflash2]"
FLOOR = {
    "kind": "published", "value": 1.0, "unit": "×", "direction": "higher", "floor": 1e-6, "source": "test",
}  # fmt: skip
ME = os.getpid()
Turn = Callable[["Scene"], bool]


class Scene:
    """Runs of one speed claim, whose floor every machine keeps, on a scripted card."""

    def __init__(self, directory: Path, gpu: ScriptedGpu) -> None:
        self.directory = directory
        self.gpu = gpu
        self.run_dir = new_run(directory)
        speed_profile(directory, CARD_WITH_A_TEMPERATURE, foreign_share=FOREIGN_SHARE)
        folder = directory / "baselines" / "small"
        folder.mkdir(parents=True)
        entries = {"speedup.code": FLOOR}
        document = {"schema": 1, "profile": "small", "device": "reference", "entries": entries}
        (folder / "reference.json").write_text(json.dumps(document), "utf-8")

    def arguments(self, *more: str, claim: str = CLAIM) -> list[str]:
        return [
            claim, f"--specdec-run-dir={self.run_dir}", f"--specdec-profile={self.directory / 'small.toml'}",
            f"--specdec-baselines={self.directory / 'baselines'}", f"--specdec-lock-dir={self.directory / 'locks'}",
            "--specdec-cooldown-timeout=0.3s", *more,
        ]  # fmt: skip

    def play(self, script: str, *more: str) -> dict[str, Any]:
        """The claim's verdict on a card that stays as it is."""
        done = gate(*self.arguments("--specdec-device=0", *more), cwd=ROOT, **self.gpu.plays(script))
        assert (self.run_dir / "results.json").exists(), done.stdout + done.stderr
        return self.verdict()

    def play_along(self, script: str, *turns: tuple[Turn, float], patience: str = "2s") -> dict[str, Any]:
        """The same; when a condition comes true the script moves to its second."""
        environment = clean_environment(**self.gpu.plays(script))
        arguments = self.arguments("--specdec-device=0", f"--specdec-cooldown-timeout={patience}")
        command = [sys.executable, "-m", "pytest", *arguments]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
            for condition, second in turns:
                assert eventually(partial(self._comes_true, condition, process))
                self.gpu.at(second)
            told, _ = process.communicate(timeout=3 * PATIENCE_S)
        assert (self.run_dir / "results.json").exists(), told
        return self.verdict()

    def _comes_true(self, condition: Turn, process: subprocess.Popen[str]) -> bool:
        return condition(self) or process.poll() is not None

    def verdict(self) -> dict[str, Any]:
        found: dict[str, Any] = results_of(self.run_dir)["speedup.code"]
        return found

    def generations(self) -> list[Mapping[str, Any]]:
        path = self.run_dir / "generations.jsonl"
        return list(lines_of(path)) if path.exists() else []

    def voids(self) -> set[str]:
        return {void["reason"] for row in self.generations() for void in row["voids"]}


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def scene(nvml: Path, tmp_path: Path) -> Scene:
    return Scene(tmp_path, ScriptedGpu(nvml, tmp_path))


def is_watched(scene: Scene) -> bool:
    return (scene.run_dir / "telemetry.jsonl").exists()


def measured_something(scene: Scene) -> bool:
    return bool(scene.generations())


def voided(scene: Scene) -> bool:
    return bool(scene.voids())


def test_a_cool_card_that_is_ours_voids_nothing_and_every_generation_knows_it(scene: Scene) -> None:
    verdict = scene.play(COOL)
    assert (verdict["status"], verdict["reason"]) == ("pass", "held")
    told = [row["device"] for row in scene.generations()]
    assert {row["key"] for row in told} == {"GPU-aaaa"}
    assert {row["temperature_c_max"] for row in told} == {41}
    assert {row["sm_clock_mhz"] for row in told} == {2400}
    assert not any(row["slowdowns"] for row in told)
    samples = read_telemetry(scene.run_dir / "telemetry.jsonl")
    first, last = scene.generations()[0]["started_ns"], scene.generations()[-1]["ended_ns"]
    assert samples[0].at_ns < first < last < samples[-1].at_ns, "both are stamped by one clock"
    identity = json.loads((scene.run_dir / "run.json").read_text("utf-8"))
    assert (identity["device"], identity["hardware"]["driver"]) == ("scripted-6000", "580.65.06")


def test_hot_start(scene: Scene) -> None:
    verdict = scene.play(CARD + "temperature_c 0 75\n")
    assert (verdict["status"], verdict["reason"]) == ("void", "hot_start")
    assert "it began at 75 °C; the limit is 45" in verdict["detail"]


def test_a_card_that_cools_down_is_waited_for(scene: Scene) -> None:
    verdict = scene.play_along(CARD + "temperature_c 0 75\ntemperature_c 10 40\n", (is_watched, 10), patience="60s")
    assert (verdict["status"], scene.voids()) == ("pass", set())


def test_throttle_in_the_middle_of_a_run_is_measured_again(scene: Scene) -> None:
    script = COOL + "reasons 10 0x40\nsm_clock_mhz 10 1200\nreasons 20 0\nsm_clock_mhz 20 2400\n"
    verdict = scene.play_along(script, (measured_something, 10), (voided, 20))
    assert (verdict["status"], verdict["reason"]) == ("pass", "held")
    assert "throttled" in scene.voids()
    figures = verdict["evidence"]["cells"].values()
    assert all(figure["valid"] >= 6 for figure in figures)
    assert sum(figure["generations"] - figure["valid"] for figure in figures) > 0


def test_throttle_that_does_not_end(scene: Scene) -> None:
    verdict = scene.play(COOL.replace("reasons 0 0", "reasons 0 0x60"))
    assert (verdict["status"], verdict["reason"]) == ("void", "throttled")
    assert "the device reports: hardware thermal slowdown, software thermal slowdown" in verdict["detail"]


def test_a_power_cap_is_normal(scene: Scene) -> None:
    verdict = scene.play(COOL.replace("reasons 0 0", "reasons 0 0x4"))
    assert (verdict["status"], scene.voids()) == ("pass", set())
    assert {row["device"]["power_capped_share"] for row in scene.generations()} == {1.0}


@pytest.mark.parametrize("since", [0, 10], ids=["before", "later"])
def test_a_foreign_process(scene: Scene, since: int) -> None:
    script = COOL + f"process {since} - {ME} 2048\n"
    verdict = scene.play_along(script, (measured_something, 10)) if since else scene.play(script)
    assert "device_shared" in scene.voids()
    shared = [v["detail"] for row in scene.generations() for v in row["voids"]]
    assert all(f"also on the device: pid {ME} (" in detail and "with 2048 MiB" in detail for detail in shared)
    if not since:
        assert (verdict["status"], verdict["reason"]) == ("void", "device_shared")


def test_memory_that_is_not_released(scene: Scene) -> None:
    script = COOL + f"memory_used_mib 10 9216\nprocess 10 - {ME} 8192\n"
    verdict = scene.play_along(script, (measured_something, 10))
    assert (verdict["status"], verdict["reason"]) == ("void", "device_failed")
    assert f"8192 MiB more in use than before the server, held by pid {ME} (" in verdict["detail"]
    assert "end what holds the device" in verdict["detail"]


def test_a_lost_device(scene: Scene) -> None:
    verdict = scene.play(COOL + "fail * 15 120\n")
    assert (verdict["status"], verdict["reason"]) == ("void", "device_failed")
    assert "GPU is lost" in verdict["measured"] + verdict["detail"]
    assert "look for Xid lines" in verdict["detail"]


def test_no_permission_for_the_list_of_processes(scene: Scene) -> None:
    verdict = scene.play(COOL + "fail nvmlDeviceGetComputeRunningProcesses_v3 4 0\n")
    assert (verdict["status"], verdict["reason"]) == ("void", "device_failed")
    assert "Insufficient Permissions" in verdict["detail"]
    assert "run as a user who may read the device" in verdict["detail"]
    assert not scene.generations()


MIG = COOL + "mig 1\ninstance MIG-1111 Scripted 3g.48gb\ninstance MIG-2222 Scripted 1g.12gb\n"


@pytest.mark.parametrize(
    ("script", "why", "remedy"),
    [
        (COOL + "fail nvmlInitWithFlags 4 0\n", "Insufficient Permissions", "run as a user who may read the device"),
        (COOL + "fail nvmlInitWithFlags 18 0\n", "version mismatch", "the driver was updated under a running kernel"),
        (MIG, "MIG divides it, and no instance was named", "--specdec-device=MIG-... (there is: MIG-1111, MIG-2222)"),
        (COOL, "", ""),
    ],
    ids=["no permission", "driver mismatch", "MIG", "another device"],
)
def test_a_device_that_cannot_be_had_ends_the_run_before_it_begins(
    scene: Scene, script: str, why: str, remedy: str
) -> None:
    device = "0" if why else "7"
    done = gate(*scene.arguments(f"--specdec-device={device}"), cwd=ROOT, **scene.gpu.plays(script))
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert why in done.stderr
    assert (remedy or "name a device that `nvidia-smi -L` lists") in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_mig_instance_is_measured_on_and_recorded_apart(scene: Scene) -> None:
    assert scene.play(MIG, "--specdec-device=MIG-2222")["status"] == "pass"
    identity = json.loads((scene.run_dir / "run.json").read_text("utf-8"))
    assert (identity["device"], identity["hardware"]["key"]) == ("scripted-1g.12gb", "GPU-aaaa")


def test_the_embedded_server_needs_no_gpu_and_asks_for_none(scene: Scene) -> None:
    """A driver that nobody can talk to is no matter to a build without GPU code."""
    environment = scene.gpu.plays(COOL + "fail nvmlInitWithFlags 18 0\n")
    done = gate(*scene.arguments(claim=EXACT), cwd=ROOT, **environment)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert "profile small, device cpu" in done.stdout


def test_a_build_that_may_use_a_gpu_gets_one_and_sees_no_other(scene: Scene) -> None:
    seen = scene.directory / "seen"
    build = build_with_fault(
        scene.directory, f"open({str(seen)!r}, 'a').write(os.environ.get('CUDA_VISIBLE_DEVICES', '-') + ' ')"
    )
    script = COOL + "device GPU-cccc NVIDIA Scripted 5000\n"
    environment = {**scene.gpu.plays(script), "CUDA_VISIBLE_DEVICES": "1,0"}
    done = gate(*scene.arguments(f"--llama-server={build}", claim=EXACT), cwd=ROOT, **environment)
    assert "profile small, device scripted-5000" in done.stdout
    assert set(seen.read_text("utf-8").split()) == {"GPU-cccc"}


@pytest.fixture
def busy_cores() -> Iterator[None]:
    """Somebody else uses every core."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(psutil.cpu_count() or 1)]
    yield
    for process in burning:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("busy_cores")
@pytest.mark.skipif(not has_all_cores(), reason="on a part of the cores nobody knows who else uses them")
def test_on_a_cpu_that_others_use_speed_is_void_and_never_a_failure(scene: Scene) -> None:
    speed_profile(scene.directory, CARD_WITH_A_TEMPERATURE, n_predict=400, foreign_share=FOREIGN_SHARE)
    done = gate(*scene.arguments())
    verdict = scene.verdict()
    assert (verdict["status"], verdict["reason"]) == ("void", "device_shared"), done.stdout
    assert "% of the cores" in verdict["detail"]


def test_the_doctor_sees_what_is_wrong_with_the_card(scene: Scene) -> None:
    environment = clean_environment(**scene.gpu.plays(CARD + f"temperature_c 0 75\nprocess 0 - {ME} 2048\n"))
    command = [sys.executable, "-m", "pytest_specdec", "doctor", "--specdec-device=0"]
    profile = f"--specdec-profile={scene.directory / 'small.toml'}"
    done = subprocess.run([*command, profile], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    screen = pytest.LineMatcher(done.stdout.splitlines())
    screen.fnmatch_lines_random([
        "*device*NVIDIA Scripted 6000 (GPU-aaaa, driver 580.65.06); its baselines are called scripted-6000",
        "*temperature*75 °C", "*do: speed claims wait until it is at 45 °C*", "*memory*97280 of 98304 MiB free",
        f"*other processes*pid {ME} (*", "*lock*free",
    ])  # fmt: skip
    broken = clean_environment(**scene.gpu.plays(COOL + "fail nvmlInitWithFlags 18 0\n"))
    done = subprocess.run([*command, profile], cwd=ROOT, env=broken, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "!! device" in done.stdout
    assert "the driver was updated under a running kernel" in done.stdout
