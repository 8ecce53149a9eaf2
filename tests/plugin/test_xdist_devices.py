"""Workers of pytest-xdist and devices: one each, a panel on one of them, and never more workers than devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripted_gpu import COOL, ScriptedGpu, library
from tests.support import build_with_fault, gate, lines_of, new_run, results_of, small_profile

CLAIMS = """
import pytest

@pytest.mark.parametrize("number", range(2))
@pytest.mark.claim("mixed", source="t", arm="dflash2", over="base", on="mixed", kind="exact")
def test_mixed(number, cells, claim):
    claim.holds(len(cells["dflash2"].generations) == 1, measured="a reply", expected="a reply")
    claim.holds(len(cells["base"].generations) == 1, measured="a reply", expected="a reply")

@pytest.mark.claim("width", source="t", arms=["dflash2", "dflash2@3"], on="width")
def test_width(cells, claim):
    claim.holds(len(cells["dflash2@3"].generations) == 1, measured="a reply", expected="a reply")
    claim.holds(len(cells["dflash2"].generations) == 1, measured="a reply", expected="a reply")
"""
SPEED = """
import pytest

@pytest.mark.claim("speed", source="t", arm="dflash2", over="base", on="code")
def test_speed(contrast, baseline):
    baseline.holds(contrast.throughput)
"""
CROWDED = "giving each of {} workers a device of its own"


@pytest.fixture
def gpus(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that sees two cards."""
    gpu = ScriptedGpu(library(tmp_path), tmp_path)
    return gpu.plays(COOL + "device GPU-cccc NVIDIA Scripted 6000\nmemory_used_mib 0 1024\ntemperature_c 0 40\n")


def arguments(directory: Path, text: str, *more: str) -> list[str]:
    (directory / "test_it.py").write_text(text, "utf-8")
    sizes = "\n[workloads.width]\nprompts = 1\nn_predict = 16\n"
    return [
        f"--specdec-profile={small_profile(directory, sizes, prompts=1, n_predict=16)}",
        f"--specdec-lock-dir={directory / 'locks'}", *more,
    ]  # fmt: skip


def test_each_worker_has_a_gpu_and_a_panel_is_of_one_of_them(tmp_path: Path, gpus: dict[str, str]) -> None:
    """Whoever gets which claim: what is compared with each other was measured on one card."""
    run, build = new_run(tmp_path), build_with_fault(tmp_path, "pass")
    words = arguments(tmp_path, CLAIMS, f"--specdec-run-dir={run}", f"--llama-server={build}")
    done = gate("-n", "2", "--dist=loadgroup", *words, cwd=tmp_path, **gpus)
    assert {row["status"] for row in results_of(run).values()} == {"pass"}, done.stdout
    assert "@specdec-" not in done.stdout.partition("claims about speculative decoding")[2]
    arms: dict[tuple[str, str], set[str]] = {}
    for row in lines_of(run / "generations.jsonl"):
        arms.setdefault((row["device"]["key"], row["cell"]["workload"]), set()).add(row["cell"]["arm"])
    assert {card for card, _ in arms} == {"GPU-aaaa", "GPU-cccc"}
    expected = {"mixed": {"base", "dflash2"}, "width": {"dflash2", "dflash2@3"}}
    assert all(measured == expected[workload] for (_, workload), measured in arms.items())


def test_the_claims_of_a_panel_are_a_group(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=CLAIMS,
        conftest="def pytest_collection_finish(session):\n"
        "    for item in session.items:\n"
        "        print(item.name, [mark.args for mark in item.iter_markers('xdist_group')])\n",
    )
    shown = pytester.runpytest("--collect-only", "-q", "-s")
    shown.stdout.fnmatch_lines([
        "test_mixed?0? ?('specdec-exact-mixed',)?", "test_mixed?1? ?('specdec-exact-mixed',)?",
        "test_width ?('specdec-exact-width',)?",
    ])  # fmt: skip


def test_more_workers_than_gpus_are_refused(tmp_path: Path, gpus: dict[str, str]) -> None:
    words = arguments(tmp_path, CLAIMS, f"--llama-server={build_with_fault(tmp_path, 'pass')}")
    done = gate("-n", "3", *words, cwd=tmp_path, **gpus)
    assert done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    told = done.stdout + done.stderr
    assert CROWDED.format(3) in told
    assert "there are 2 devices" in told
    assert "use -n 2" in told


def test_speed_has_one_worker_on_a_cpu(tmp_path: Path) -> None:
    done = gate("-n", "2", *arguments(tmp_path, SPEED), cwd=tmp_path)
    assert done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    told = done.stdout + done.stderr
    assert CROWDED.format(2) in told
    assert "there is one device (cpu)" in told
    assert "-m 'not speed'" in told
    assert "Traceback" not in told
