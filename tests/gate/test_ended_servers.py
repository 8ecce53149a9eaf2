"""A server that ends is a regression where it did that itself, and none where the machine had no memory for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gate.test_red import DIES_MID_STREAM, ONE_CLAIM, Judged
from tests.gate.test_speed_panels import CERTAIN, SPEEDUP, Panels, visits
from tests.support import build_with_fault, gate, new_run, results_of

# Every start with a drafter, as long as the file is there.
ENDS_AT_START = """
if "--spec-type" in arguments and os.path.exists({cause!r}):
    print({words!r}, flush=True)
    {ending}
"""
NO_MEMORY = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2720.00 MiB on device 0: cudaMalloc failed: out of memory"
)


def build_that_ends(directory: Path, words: str, ending: str) -> tuple[Path, Path]:
    """The server, and the file without which it is well."""
    cause = directory / "cause"
    cause.touch()
    return build_with_fault(directory, ENDS_AT_START.format(cause=str(cause), words=words, ending=ending)), cause


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_a_drafter_that_crashes_at_load_is_a_fail_whatever_the_records(tmp_path: Path, name: str) -> None:
    ending = f"import signal; os.kill(os.getpid(), signal.{name})"
    build, _ = build_that_ends(tmp_path, "GGML_ASSERT(hparams.n_rot > 0) failed", ending)
    red = Judged(tmp_path, *ONE_CLAIM, f"--llama-server={build}")
    assert {(row["status"], row["reason"]) for row in red.verdicts.values()} == {("fail", "server_died")}
    red.told("FAIL (server_died)", f"it crashed ({name})", "| GGML_ASSERT")


def test_the_arm_that_ended_is_named_and_no_other(tmp_path: Path) -> None:
    """The target alone cannot be started with two slots: no drafter is lost by that."""
    fault = 'if "--parallel 2" in " ".join(arguments) and "--spec-type" not in arguments:\n    sys.exit("no slots")'
    slots = "suites/test_context.py::test_parallel_slots_of_unequal_length[dflash2]"
    red = Judged(tmp_path, slots, f"--llama-server={build_with_fault(tmp_path, fault)}")
    assert {(row["status"], row["reason"]) for row in red.verdicts.values()} == {("void", "server_failed")}
    red.told("a measurement of exact/live/base", "| no slots")


def test_a_server_that_is_killed_mid_stream_is_no_regression(tmp_path: Path) -> None:
    build = build_with_fault(tmp_path, DIES_MID_STREAM.replace("SIGABRT", "SIGKILL").replace("GGML_ASSERT", "Killed"))
    red = Judged(tmp_path, *ONE_CLAIM, f"--llama-server={build}")
    assert {(row["status"], row["reason"]) for row in red.verdicts.values()} == {("void", "server_failed")}
    red.told("during the request", "it was killed (SIGKILL)", "--specdec-resume")


def test_want_of_memory_is_void_and_over_when_the_run_goes_on_with_memory(tmp_path: Path) -> None:
    build, cause = build_that_ends(tmp_path, NO_MEMORY, "sys.exit(1)")
    red = Judged(tmp_path, *ONE_CLAIM, f"--llama-server={build}")
    assert {(row["status"], row["reason"]) for row in red.verdicts.values()} == {("void", "server_failed")}
    red.told("VOID (server_failed)", "memory ran out (ggml_backend_cuda", "make room, then go on with --specdec-resume")
    cause.unlink()
    profile = f"--specdec-profile={tmp_path / 'small.toml'}"
    done = gate(*ONE_CLAIM, f"--llama-server={build}", profile, f"--specdec-resume={red.run}")
    assert done.returncode == 0, done.stdout
    assert {row["status"] for row in results_of(red.run).values()} == {"pass"}


def test_an_arm_of_a_panel_that_was_void_is_measured_when_the_run_goes_on(tmp_path: Path) -> None:
    panels, run = Panels(tmp_path), new_run(tmp_path)
    panels.floors(**{"speedup.code": CERTAIN})
    build, cause = build_that_ends(tmp_path, NO_MEMORY, "sys.exit(1)")
    code = (f"{SPEEDUP}::test_dflash2_doubles_single_turn_code", f"--llama-server={build}")
    assert panels.run(run, *code)["speedup.code"]["reason"] == "server_failed"
    cause.unlink()
    assert panels.run(run, *code, f"--specdec-resume={run}")["speedup.code"]["status"] == "pass"
    assert {arm for _, arm in visits(run)} == {"base", "dflash2"}
