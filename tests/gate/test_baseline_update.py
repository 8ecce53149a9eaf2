"""Recording, as a user does it: a run of the real server, a file in a folder, and what the run says of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SUITE = """
import pytest

from pytest_specdec.asking import CellMap
from pytest_specdec.judge import BaselineJudge


@pytest.mark.claim("rate", source="here", arm="dflash2", on="width")
def test_rate(cells: CellMap, baseline: BaselineJudge) -> None:
    baseline.holds(cells["dflash2"].tokens_per_cycle, unit="tokens per cycle")
"""


class Project:
    """A suite of one claim with baselines of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.baseline = folder / "baselines" / "tiny" / "cpu.json"
        (folder / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n", "utf-8")
        (folder / "tests").mkdir()
        (folder / "tests" / "test_rate.py").write_text(SUITE, "utf-8")
        (folder / "baselines").mkdir()
        shutil.copy(ROOT / "baselines" / "any.json", folder / "baselines")

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """pytest in that folder, on the embedded server and the CPU."""
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--llama-server=embedded", *arguments]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPECDEC_", "GITHUB_"))}
        return subprocess.run(
            command, cwd=self.folder, env=kept | environment, capture_output=True, text=True, check=False
        )

    @property
    def document(self) -> Any:
        """The baseline as it is on disk."""
        return json.loads(self.baseline.read_text("utf-8"))

    def edit(self, **changes: Any) -> None:
        """Change the claim's entry by hand."""
        document = self.document
        document["entries"]["rate"] |= changes
        self.baseline.write_text(json.dumps(document), "utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Its claim is recorded."""
    made = Project(tmp_path)
    done = made.run("--specdec-update-baseline=new")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "+ rate: recorded" in done.stdout
    return made


def test_a_regression_is_recorded_with_its_reason_or_not_at_all(project: Project) -> None:
    measured = project.document["entries"]["rate"]["value"]
    project.edit(value=measured + 1)
    before = project.baseline.read_bytes()
    refused = project.run("--specdec-update-baseline")
    assert refused.returncode != 0
    assert "these moved against their direction" in refused.stdout
    assert project.baseline.read_bytes() == before
    accepted = project.run("--specdec-update-baseline", "--specdec-accept-regression", "a smaller drafter")
    assert accepted.returncode == 0, accepted.stdout
    entry = project.document["entries"]["rate"]
    assert entry["value"] == measured
    assert entry["provenance"]["accepted_regression"]["reason"] == "a smaller drafter"


def test_a_refused_update_is_red_in_a_worker_too(project: Project) -> None:
    project.edit(value=1.5 * project.document["entries"]["rate"]["value"])
    before = project.baseline.read_bytes()
    run = project.folder / "run"
    refused = project.run("--specdec-update-baseline", "-n", "1", f"--specdec-run-dir={run}")
    assert refused.returncode == pytest.ExitCode.TESTS_FAILED, refused.stdout
    assert "these moved against their direction" in refused.stdout
    assert json.loads((run / "results.json").read_text("utf-8"))["exit_status"] == pytest.ExitCode.TESTS_FAILED
    assert project.baseline.read_bytes() == before


def test_what_a_guard_spoiled_is_not_recorded(project: Project) -> None:
    before = project.baseline.read_bytes()
    made_up = project.folder / "made_up.toml"
    made_up.write_text(
        'extends = "tiny"\nname = "tiny"\nabout = "made up"\n[arms.dflash2.flags]\nspec-synth-len = 2\n', "utf-8"
    )
    done = project.run("--specdec-update-baseline", f"--specdec-profile={made_up}")
    assert done.returncode == 1
    assert "not recorded: rate (void: synthetic_acceptance)" in done.stdout
    assert project.baseline.read_bytes() == before


def test_a_record_of_other_models_judges_nothing(project: Project) -> None:
    project.edit(comparability=project.document["entries"]["rate"]["comparability"] | {"models": {"target": "0" * 64}})
    before = project.baseline.read_bytes()
    done = project.run()
    assert done.returncode == 1
    assert "VOID (baseline_mismatch): rate" in done.stdout
    assert "model target: recorded with 000000000000" in done.stdout
    assert project.baseline.read_bytes() == before


def test_an_entry_that_no_claim_uses_is_told_on_a_full_run_only(project: Project) -> None:
    document = project.document
    document["entries"]["gone"] = document["entries"]["rate"]
    project.baseline.write_text(json.dumps(document), "utf-8")
    assert "that no claim uses; remove them" in project.run("-k", "rate").stdout
    assert "that no claim uses" not in project.run("tests/test_rate.py").stdout


def test_github_is_told_by_itself(project: Project, tmp_path: Path) -> None:
    project.edit(value=100.0)
    summary = tmp_path / "summary.md"
    done = project.run(GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    assert "\n::error file=tests/test_rate.py,title=fail (record_moved)%3A rate::measured: " in done.stdout
    assert "❌ fail" in summary.read_text("utf-8")
    assert "::error" not in project.run().stdout
