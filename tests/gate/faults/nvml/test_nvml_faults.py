"""Faults of a GPU, met by the real pynvml through a scripted NVML library. No GPU takes part."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.device.telemetry import read_telemetry
from tests.scripted_gpu import CARD, COOL, library

HERE = Path(__file__).parent
Play = Callable[..., dict[str, Any]]
Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compiles the scripted library, once for each set of definitions, and returns its directory."""
    built: dict[tuple[str, ...], Path] = {}

    def compile_with(*definitions: str) -> Path:
        if definitions not in built:
            built[definitions] = library(tmp_path_factory.mktemp("nvml"), *definitions)
        return built[definitions]

    return compile_with


@pytest.fixture
def play(build: Build, tmp_path: Path) -> Play:
    """Runs one scenario of ``nvml_scenarios.py`` against a script and returns what it printed."""

    def run(script: str, *words: str, driver: str | None = None, **variables: str) -> dict[str, Any]:
        (tmp_path / "script").write_text(script)
        environment = os.environ | {
            "LD_LIBRARY_PATH": str(build(*([driver] if driver else []))),
            "SCRIPTED_NVML": str(tmp_path / "script"),
            "SCRIPTED_NVML_CLOCK": str(tmp_path / "clock"),
        }
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        done = subprocess.run(
            [sys.executable, str(HERE / "nvml_scenarios.py"), *words],
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    return run


def test_every_field_is_read(play: Play) -> None:
    read = play(COOL + "process 0 - 4711 512\nprocess 0 - 4711 256\nprocess 0 - 5000 -\n", "read", "-")
    assert read["identity"] == {
        "key": "GPU-aaaa",
        "name": "NVIDIA Scripted 6000",
        "driver": "580.65.06",
        "mig": None,
        "memory_total_mib": 98304.0,
        "environment": {"CUDA_VISIBLE_DEVICES": "GPU-aaaa"},
    }
    assert read["sample"].pop("at_ns") > 0
    assert read["sample"] == {
        "temperature_c": 41,
        "sm_clock_mhz": 2400,
        "memory_clock_mhz": 14000,
        "power_w": 310.0,
        "power_limit_w": 600.0,
        "utilisation_pct": 97.0,
        "memory_used_mib": 1024.0,
        "memory_total_mib": 98304.0,
        "reasons": 0,
        "processes": [{"pid": 4711, "memory_mib": 768.0}, {"pid": 5000, "memory_mib": None}],
    } | dict.fromkeys(("load_1m", "cpu_total_s", "cpu_busy_s", "rss_mib", "ours_cpu_s"))


@pytest.mark.parametrize("driver", ["OLD_DRIVER", "NEW_DRIVER"])
def test_older_and_coming_drivers_are_read_through_other_functions(play: Play, driver: str) -> None:
    script = COOL.replace("reasons 0 0", "reasons 0 0x40") + "process 0 - 4711 512\n"
    sample = play(script, "read", "-", driver=driver)["sample"]
    assert (sample["temperature_c"], sample["reasons"]) == (41, 0x40)
    assert sample["processes"] == [{"pid": 4711, "memory_mib": 512.0}]
    assert sample["memory_used_mib"] == (1524.0 if driver == "OLD_DRIVER" else 1024.0)  # with the driver's reserve


def test_what_a_device_does_not_support_is_unknown_and_not_zero(play: Play) -> None:
    sample = play("driver 1.0\ndevice GPU-bbbb Bare\n", "read", "-")["sample"]
    told = {name for name, value in sample.items() if value is not None}
    assert told == {"at_ns", "processes"}


@pytest.mark.parametrize(
    ("selector", "variables", "key"),
    [
        ("-", {}, "GPU-aaaa"),
        ("1", {}, "GPU-cccc"),
        ("GPU-cccc", {}, "GPU-cccc"),
        ("-", {"CUDA_VISIBLE_DEVICES": "GPU-cccc,GPU-aaaa"}, "GPU-cccc"),
        ("-", {"CUDA_VISIBLE_DEVICES": "1"}, "GPU-cccc"),
        ("0", {"CUDA_VISIBLE_DEVICES": "1"}, "GPU-aaaa"),
        ("cpu", {}, "cpu"),
        ("-", {"CUDA_VISIBLE_DEVICES": "-1"}, "cpu"),
    ],
)
def test_one_of_two_devices_is_selected(play: Play, selector: str, variables: dict[str, str], key: str) -> None:
    script = COOL + "device GPU-cccc NVIDIA Scripted 5000\n"
    assert play(script, "read", selector, **variables)["identity"]["key"] == key
    assert play(script, "list_all")["keys"] == ["GPU-aaaa", "GPU-cccc"]


@pytest.mark.parametrize("selector", ["7", "GPU-nowhere"])
def test_a_device_that_is_not_there(play: Play, selector: str) -> None:
    error = play(COOL, "read", selector)
    assert selector in error["tried"]
    assert "nvidia-smi -L" in error["remedy"]


def test_a_cool_device_is_not_waited_for(play: Play) -> None:
    cooled = play(COOL, "cooldown", "45", "300", "0")
    assert (cooled["void"], cooled["waited_s"], cooled["lines"]) == (None, 0.0, [])


def test_a_hot_device_is_waited_for_with_a_countdown(play: Play) -> None:
    cooled = play(CARD + "temperature_c 0 75\ntemperature_c 60 40\n", "cooldown", "45", "300", "0")
    assert cooled["void"] is None
    assert cooled["temperature_c"] <= 45
    assert 45 <= cooled["waited_s"] <= 60
    assert "cooling NVIDIA Scripted 6000: 75 °C, wanted 45 °C, 300 s left" in cooled["lines"][0]
    assert len(cooled["lines"]) == round(cooled["waited_s"])


def test_hot_start(play: Play) -> None:
    cooled = play(CARD + "temperature_c 0 75\ntemperature_c 60 52\n", "cooldown", "45", "120", "0")
    assert (cooled["void"]["reason"], cooled["void"]["figures"]) == ("hot_start", ["speed"])
    assert "52 °C" in cooled["void"]["detail"]
    assert (cooled["still_hot"], cooled["waited_s"]) == ("52 °C, wanted 45 °C", 120.0)


def test_after_a_throttle_the_pause_is_kept_although_the_device_says_that_it_is_cool(play: Play) -> None:
    cooled = play(COOL, "cooldown", "45", "300", "30")
    assert (cooled["void"], cooled["waited_s"]) == (None, 30.0)
    assert "a pause after throttling, 30 s left" in cooled["lines"][0]


def test_a_slowdown_that_lasts_is_waited_for_at_any_temperature(play: Play) -> None:
    cooled = play(COOL.replace("reasons 0 0", "reasons 0 0x80"), "cooldown", "45", "20", "10")
    assert (cooled["void"]["reason"], cooled["waited_s"]) == ("throttled", 20.0)
    assert "hardware power brake" in cooled["still_hot"]


def test_throttle_in_the_middle_of_a_run(play: Play, tmp_path: Path) -> None:
    script = CARD + "temperature_c 0 70\ntemperature_c 10 94\nreasons 10 0x60\nsm_clock_mhz 10 1200\n"
    script += f"process 0 10 {os.getpid()} 4096\nprocess 10 - {os.getpid()} 5120\nprocess 0 - 999999999 512\n"
    played = play(script, "stretches", str(tmp_path / "telemetry.jsonl"), "10", str(os.getpid()))
    before, after = played["voids"]
    assert before is None
    assert after["reason"] == "throttled"
    assert after["figures"] == ["speed"]
    assert "hardware thermal slowdown, software thermal slowdown" in after["detail"]
    assert [s["temperature_c_max"] for s in played["summaries"]] == [70, 94]
    assert [s["server_device_mib_max"] for s in played["summaries"]] == [4096.0, 5120.0]
    assert [s.temperature_c for s in read_telemetry(tmp_path / "telemetry.jsonl")] == [70] * 4 + [94] * 3


def test_a_power_cap_is_normal_and_explains_a_lower_clock(play: Play, tmp_path: Path) -> None:
    script = COOL + "reasons 10 0x4\nsm_clock_mhz 10 2200\n"
    played = play(script, "stretches", str(tmp_path / "telemetry.jsonl"), "10", str(os.getpid()))
    assert played["voids"] == [None, None]
    assert played["drift"] is None
    assert [s["power_capped_share"] for s in played["summaries"]] == [0.0, 1.0]


def test_a_foreign_process_that_stays(play: Play) -> None:
    pid = os.getpid()
    played = play(COOL + f"process 0 - {pid} 2048\nprocess 0 - 999999999 1\n", "alone", "60")
    assert (played["void"]["reason"], played["void"]["figures"]) == ("device_shared", ["memory", "speed"])
    assert f"pid {pid} (" in played["void"]["detail"]
    assert "with 2048 MiB" in played["void"]["detail"]
    assert "pid 999999999 (not visible from here" in played["void"]["detail"]
    assert (played["waited_s"], len(played["lines"])) == (60.0, 60)
    assert "0 s of at most 60 s" in played["lines"][0]


def test_a_foreign_process_that_leaves_and_our_own(play: Play) -> None:
    played = play(COOL + "process 0 20 999999999 2048\nprocess 0 - 4711 4096\n", "alone", "60", "4711")
    assert (played["void"], played["known"], played["waited_s"]) == (None, True, 20.0)


def test_memory_that_is_not_released_is_reported_with_the_process_that_holds_it(play: Play) -> None:
    pid = os.getpid()
    script = COOL.replace("used_mib 0 1024", "used_mib 0 9216") + f"process 0 - {pid} 8192\n"
    held = play(script, "release", "1024", "10", "-")
    assert "8192 MiB more in use than before the server" in held["why"]
    assert f"pid {pid} (" in held["why"]
    assert "end what holds the device" in held["remedy"]


def test_a_server_that_does_not_end_is_reported(play: Play) -> None:
    error = play(COOL, "release", "1024", "10", str(os.getpid()))
    assert f"still running: pid {os.getpid()} (" in error["why"]


def test_memory_that_nobody_is_listed_for(play: Play) -> None:
    script = COOL.replace("used_mib 0 1024", "used_mib 0 9216")
    assert "no process that the driver lists" in play(script, "release", "1024", "10", "-")["why"]


def test_memory_that_is_released_a_little_later(play: Play) -> None:
    script = COOL.replace("used_mib 0 1024", "used_mib 0 9216") + "memory_used_mib 3 1030\n"
    played = play(script, "release", "1024", "10", "-")
    assert 3.0 <= played["waited_s"] < 3.2
    assert "8192 MiB not released" in played["lines"][0]


def test_a_device_that_falls_off_the_bus_ends_the_telemetry_and_every_later_summary(play: Play, tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    error = play(COOL + "fail * 15 100\n", "lost_in_the_background", str(path))
    assert "GPU is lost" in error["why"]
    assert "Xid" in error["remedy"]
    assert len(read_telemetry(path)) > 5
    assert "GPU is lost" in json.loads(path.read_text().splitlines()[-1])["error"]


@pytest.mark.parametrize(
    ("function", "code", "why", "remedy"),
    [
        ("nvmlInitWithFlags", 4, "Insufficient Permissions", "run as a user who may read the device"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", 4, "Insufficient Permissions", "run as a user who may"),
        ("nvmlInitWithFlags", 18, "version mismatch", "the driver was updated under a running kernel module"),
        ("nvmlInitWithFlags", 999, "Unknown Error", "see whether `nvidia-smi` works here"),
        ("nvmlDeviceGetHandleByIndex_v2", 15, "GPU is lost", "restart the machine"),
        ("nvmlDeviceGetPowerUsage", 16, "requires restart", "asks for a reset"),
    ],
)
def test_failures_are_explained_and_never_taken_for_a_machine_without_gpu(
    play: Play, function: str, code: int, why: str, remedy: str
) -> None:
    error = play(COOL + f"fail {function} {code} 0\n", "read", "-")
    assert why in error["why"]
    assert f"code {code}" in error["why"]
    assert remedy in error["remedy"]


def test_a_library_without_its_driver_is_a_machine_without_gpu_unless_one_is_asked_for(play: Play) -> None:
    script = COOL + "fail nvmlInitWithFlags 9 0\n"
    assert play(script, "read", "-")["kind"] == "NoNvidia"
    assert "load the NVIDIA driver" in play(script, "read", "0")["remedy"]


def test_a_driver_without_devices_is_a_machine_without_gpu(play: Play) -> None:
    assert play("driver 580.1\n", "read", "-")["kind"] == "NoNvidia"
    assert play("driver 580.1\n", "list_all")["keys"] == ["cpu"]


MIG = COOL + "mig 1\nprocess 0 - 4711 512\ninstance MIG-1111 Scripted 3g.48gb\ninstance MIG-2222 Scripted 1g.12gb\n"


def test_a_device_that_mig_divides_wants_an_instance(play: Play) -> None:
    error = play(MIG, "read", "-")
    assert error["why"] == "MIG divides it, and no instance was named"
    assert "MIG-1111, MIG-2222" in error["remedy"]


def test_a_mig_instance_is_read_and_locks_its_whole_gpu(play: Play) -> None:
    read = play(MIG, "read", "MIG-2222")
    identity, sample = read["identity"], read["sample"]
    assert (identity["key"], identity["name"], identity["mig"]) == ("GPU-aaaa", "Scripted 1g.12gb", True)
    assert identity["environment"] == {"CUDA_VISIBLE_DEVICES": "MIG-2222"}
    assert (sample["utilisation_pct"], sample["temperature_c"]) == (None, 41)
    assert play(COOL + "mig 0\n", "read", "-")["identity"]["mig"] is False
