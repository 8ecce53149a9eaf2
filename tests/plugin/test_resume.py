"""What a run may go on from: its own evidence, measured under the same conditions, and no other."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_specdec.places import packaged
from tests.support import build_with_fault, gate, lines_of, new_run, results_of, small_profile

CLAIMS = """
import pytest

@pytest.mark.claim("drafted", source="t", arm="dflash2", on="mixed")
def test_drafted(cells, claim):
    claim.holds(cells["dflash2"].drafted > 0, measured="drafts", expected="drafts")

@pytest.mark.claim("plain", source="t", arm="base", on="mixed")
def test_plain(cells, claim):
    claim.holds(cells["base"].drafted == 0, measured="none", expected="none")
"""
WORKERS = pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "worker"])


class Evidence:
    """A run of one claim, and how others are started in its project."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.run = new_run(directory)
        (directory / "test_it.py").write_text(CLAIMS, "utf-8")
        self.builds = {name: directory / name for name in ("good", "other")}
        for name, folder in self.builds.items():
            folder.mkdir()
            build_with_fault(folder, f"print({name!r})")
        done = self.again(f"--specdec-run-dir={self.run}")
        assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr

    def again(self, *arguments: str, build: str = "good", profile: str = "") -> subprocess.CompletedProcess[str]:
        """pytest with that build, and with more in the profile."""
        given = [] if any(word.startswith("-k") for word in arguments) else ["-k", "drafted"]
        path = small_profile(self.directory, profile)
        return gate(
            f"--llama-server={self.builds[build] / 'llama-server'}", f"--specdec-profile={path}", *given, *arguments,
            cwd=self.directory,
        )  # fmt: skip

    def copy(self, directory: Path) -> Path:
        """Of the run directory, which may be gone on with."""
        return Path(shutil.copytree(self.run, new_run(directory)))


def measured(run: Path) -> list[str]:
    return [row["cell"]["arm"] for row in lines_of(run / "generations.jsonl")]


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    told = done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, told
    assert "Traceback" not in told
    for word in ("remedy:", *words):
        assert word in told


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return Evidence(tmp_path_factory.mktemp("evidence"))


@WORKERS
def test_a_directory_that_holds_a_run_is_not_judged_anew(evidence: Evidence, workers: tuple[str, ...]) -> None:
    before = measured(evidence.run)
    done = evidence.again(f"--specdec-run-dir={evidence.run}", *workers, build="other")
    refused(done, "beginning a run in", "it holds another run")
    assert measured(evidence.run) == before


@WORKERS
def test_a_run_is_gone_on_with_where_it_is(evidence: Evidence, tmp_path: Path, workers: tuple[str, ...]) -> None:
    """Whatever only decides may be another."""
    run = evidence.copy(tmp_path)
    done = evidence.again(
        f"--specdec-resume={run}",
        "--specdec-inconclusive=skip",
        "--specdec-margin=0.1",
        "--specdec-budget=1m",
        *workers,
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert measured(run) == measured(evidence.run), "nothing is measured twice"
    assert results_of(run)["drafted"]["status"] == "pass"
    assert not (evidence.directory / ".specdec").exists(), "nor anywhere else"


@WORKERS
def test_a_build_that_was_made_anew_is_another(evidence: Evidence, tmp_path: Path, workers: tuple[str, ...]) -> None:
    """Its path and its version may be the same: what it is made of is not."""
    run = evidence.copy(tmp_path)
    refused(evidence.again(f"--specdec-resume={run}", *workers, build="other"), "going on with", "build llama-server: ")
    identity = json.loads((run / "run.json").read_text("utf-8"))
    assert identity == json.loads((evidence.run / "run.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("argument", "profile", "told"),
    [
        ("--specdec-arm-args=--spec-synth-len 2", "", "--specdec-arm-args: nothing then, --spec-synth-len 2 now"),
        ("--specdec-launcher=nice -n 1", "", "--specdec-launcher: nothing then, nice -n 1 now"),
        ("", "[server.flags]\nctx-size = 2048\n", "profile server_flags --ctx-size: 4096 then, 2048 now"),
        ("", "[arms.dflash2]\nn_max = 5\n", "profile arms dflash2 n_max: 7 then, 5 now"),
        ("", '[models]\ntarget = "other.gguf"\n', "model target: "),
        ("", "warm = true\n", "profile workloads mixed warm: nothing then, true now"),
        ("", "format = \"{text}!\"\n", "workload mixed: "),
    ],
)  # fmt: skip
def test_other_conditions_are_refused_and_named(
    evidence: Evidence, tmp_path: Path, argument: str, profile: str, told: str
) -> None:
    shutil.copy(packaged("models") / "draft.gguf", evidence.directory / "other.gguf")
    run = evidence.copy(tmp_path)
    arguments = [argument] if argument else []
    refused(evidence.again(f"--specdec-resume={run}", *arguments, profile=profile), told)


def test_another_base_build_is_refused_and_a_new_one_is_not(evidence: Evidence, tmp_path: Path) -> None:
    run = evidence.copy(tmp_path)
    base = {name: f"--llama-server-base={folder / 'llama-server'}" for name, folder in evidence.builds.items()}
    assert evidence.again(f"--specdec-resume={run}", base["other"]).returncode == pytest.ExitCode.OK
    refused(evidence.again(f"--specdec-resume={run}", base["good"]), "base build llama-server: ")


def test_what_a_run_went_on_with_is_kept_for_the_next(evidence: Evidence, tmp_path: Path) -> None:
    """An arm and a workload that were not there when it began are compared from then on."""
    run = evidence.copy(tmp_path)
    done = evidence.again(f"--specdec-resume={run}", "-kplain")
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    assert set(measured(run)) == {"base", "dflash2"}
    identity = json.loads((run / "run.json").read_text("utf-8"))
    assert identity["claims"] == ["drafted", "plain"]
    assert set(identity["arguments"]) == {"base", "dflash2"}


def test_a_run_that_does_not_say_its_conditions_is_no_evidence(evidence: Evidence, tmp_path: Path) -> None:
    run = evidence.copy(tmp_path)
    identity: Mapping[str, object] = json.loads((run / "run.json").read_text("utf-8"))
    (run / "run.json").write_text(json.dumps({k: v for k, v in identity.items() if k != "conditions"}), "utf-8")
    refused(evidence.again(f"--specdec-resume={run}"), "it does not say what it was measured under")
