"""The decision on real runs: a build against itself, and against itself slowed down, or disturbed as a guard tells.

For a machine to itself, so only with ``SPECDEC_REAL_DECISIONS=N``: N runs of each kind, of a minute or so. The counts
that must hold are for N = 20. ``SPECDEC_REAL_DECISIONS_PROFILE`` names a profile other than the one below.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.gate.slowdown import wrapper
from tests.support import gate, new_run, results_of

RUNS = int(os.environ.get("SPECDEC_REAL_DECISIONS", "0"))
CLAIM = "parity.speed[base]"
TEST = "suites/test_parity_speed.py::test_no_arm_became_slower[base]"
EMBEDDED = f"{sys.executable} -m pytest_specdec.server.embedded"
SHARE = 0.10
LEAST_FOUND = 0.95

pytestmark = pytest.mark.skipif(not RUNS, reason="needs a machine to itself: SPECDEC_REAL_DECISIONS=20")

PROFILE = """
extends = "tiny"
name = "decisions"
about = "The tiny family on short replies, for many runs; each pair has servers of its own and is independent."

[speed]
foreign_share = 0.2  # what slows a server down takes some of the cores itself

[workloads.code]
prompts = 16
n_predict = 48
block_prompts = 1
"""


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decisions") / "decisions.toml"
    path.write_text(PROFILE, "utf-8")
    return Path(os.environ.get("SPECDEC_REAL_DECISIONS_PROFILE", path))


@pytest.fixture(scope="module")
def settings(profile: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Profile and baselines, calibrated once: 80 A/A pairs in five sessions."""
    directory = tmp_path_factory.mktemp("calibrated")
    chosen = [
        f"--specdec-profile={profile}", f"--specdec-baselines={directory / 'baselines'}", "--llama-server-base=embedded"
    ]  # fmt: skip
    run = gate(TEST, *chosen, "--specdec-calibrate", f"--specdec-run-dir={new_run(directory)}")
    assert run.returncode == 0, run.stdout
    return chosen


def test_a_build_against_itself_never_fails(settings: list[str], tmp_path: Path) -> None:
    verdicts = [_verdict(tmp_path, *settings) for _ in range(RUNS)]
    _tell("A/A", verdicts, [])
    assert Counter(v["status"] for v in verdicts)["fail"] == 0


def test_a_slowdown_of_a_tenth_fails(settings: list[str], tmp_path: Path) -> None:
    slowed = wrapper(tmp_path, str(SHARE), EMBEDDED)
    verdicts = [_verdict(tmp_path, *settings, f"--llama-server={slowed}") for _ in range(RUNS)]
    achieved = [float(line) for line in (tmp_path / "achieved").read_text("utf-8").split()]
    _tell("slowed", verdicts, achieved)
    assert Counter(v["status"] for v in verdicts)["fail"] >= LEAST_FOUND * RUNS


def test_a_machine_that_slows_down_voids_the_figures(settings: list[str], tmp_path: Path) -> None:
    """Both sides alike, so that their ratio says nothing of it."""
    slowed = wrapper(tmp_path, "grow:0:0.6:60", EMBEDDED)
    verdict = _verdict(tmp_path, *settings, f"--llama-server={slowed}", f"--llama-server-base={slowed}")
    assert (verdict["status"], verdict["reason"]) == ("void", "clock_drift"), verdict


def test_a_session_noisier_than_its_calibration_is_void(settings: list[str], tmp_path: Path) -> None:
    """Both sides alike, so that neither is slower: what one pair gains another loses."""
    slowed = wrapper(tmp_path, "wave:0.6:1.7", EMBEDDED)
    verdict = _verdict(tmp_path, *settings, f"--llama-server={slowed}", f"--llama-server-base={slowed}")
    assert (verdict["status"], verdict["reason"]) == ("void", "noisy_session"), verdict


@pytest.mark.parametrize(
    ("share", "both", "reason"),
    [("second:0.2", True, "order_effect"), ("wave:0.5:23", False, "autocorrelated")],
    ids=["order", "waves"],
)
def test_a_disturbed_calibration_is_kept_by_nobody(
    profile: Path, tmp_path: Path, share: str, both: bool, reason: str
) -> None:
    slowed, baselines = wrapper(tmp_path, share, EMBEDDED), tmp_path / "baselines"
    verdict = _verdict(
        tmp_path, f"--specdec-profile={profile}", f"--specdec-baselines={baselines}", "--specdec-calibrate",
        f"--llama-server={slowed}", f"--llama-server-base={slowed if both else 'embedded'}",
    )  # fmt: skip
    assert (verdict["status"], verdict["reason"]) == ("void", reason), verdict
    assert not list(baselines.rglob("*.json"))


def _verdict(directory: Path, *arguments: str) -> dict[str, object]:
    run = new_run(directory)
    done = gate(TEST, *arguments, f"--specdec-run-dir={run}")
    found = results_of(run)
    assert CLAIM in found, done.stdout
    verdict: dict[str, object] = found[CLAIM]
    return verdict


def _tell(kind: str, verdicts: list[dict[str, object]], achieved: list[float]) -> None:
    """The counts, for the screen and for whoever quotes them."""
    counts = Counter(str(v["status"]) for v in verdicts)
    pairs = [v["evidence"].get("decided_at") for v in verdicts if isinstance(v["evidence"], dict)]
    share = f", stopped {statistics.fmean(achieved):.1%} of the time" if achieved else ""
    print(f"\n{kind}: {json.dumps(counts)} of {len(verdicts)}, decided after {pairs} pairs{share}")  # noqa: T201
    for verdict in verdicts:
        print(f"  {verdict['status']} ({verdict['reason']}): {verdict['measured']}")  # noqa: T201
