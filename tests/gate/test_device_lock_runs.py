"""Two runs on one machine: the second waits for the device and says for whom. What is waited for is never timed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import (
    PATIENCE_S,
    ROOT,
    build_with_fault,
    clean_environment,
    eventually,
    new_run,
    results_of,
    servers_of,
    speed_profile,
)

SPEEDUP = "suites/test_speedup.py"
FLOORS = {"speedup.code": 1e-6, "speedup.code.itl": 1e6}


class Started:
    """A run in a process of its own, with its screen in a file."""

    def __init__(self, directory: Path, name: str, *arguments: str) -> None:
        self.directory = new_run(directory)
        self.screen = directory / f"{name}.txt"
        command = [
            sys.executable, "-m", "pytest", SPEEDUP, "-m", "dflash2 and speed", f"--specdec-run-dir={self.directory}",
            f"--specdec-profile={directory / 'small.toml'}", f"--specdec-baselines={directory / 'baselines'}",
            f"--specdec-lock-dir={directory / 'locks'}", *arguments,
        ]  # fmt: skip
        with self.screen.open("w") as screen:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=clean_environment(), stdout=screen, stderr=subprocess.STDOUT
            )

    def shows(self, words: str) -> bool:
        return words in self.screen.read_text("utf-8")

    def verdicts(self) -> dict[str, tuple[str, str]]:
        self.process.wait(3 * PATIENCE_S)
        assert (self.directory / "results.json").exists(), self.screen.read_text("utf-8")
        return {claim: (row["status"], row["reason"]) for claim, row in results_of(self.directory).items()}


class Runs:
    """Starts runs of the speed claims that are certain to end as their floors say."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[Started] = []
        speed_profile(directory)
        entries = {
            claim: {
                "kind": "published",
                "value": 1.0,
                "unit": "×",
                "direction": "higher",
                "floor": floor,
                "source": "t",
            }
            for claim, floor in FLOORS.items()
        }
        folder = directory / "baselines" / "small"
        folder.mkdir(parents=True)
        document = {"schema": 1, "profile": "small", "device": "reference", "entries": entries}
        (folder / "reference.json").write_text(json.dumps(document), "utf-8")

    def start(self, name: str, *arguments: str) -> Started:
        self.started.append(Started(self.directory, name, *arguments))
        return self.started[-1]

    def start_holder(self) -> Started:
        """One that holds the device and goes on only when there is a file ``go``."""
        fault = f"import time\nwhile not os.path.exists({str(self.directory / 'go')!r}): time.sleep(0.05)"
        holder = self.start("holder", f"--llama-server={build_with_fault(self.directory, fault)}")
        note = self.directory / "locks" / "cpu.holder.json"
        assert eventually(lambda: note.exists() and note.read_text("utf-8")), holder.screen.read_text("utf-8")
        return holder

    def start_waiter(self, holder: Started, *arguments: str) -> Started:
        """One that has said for whom it waits."""
        waiter = self.start("waiter", *arguments)
        words = f"cpu is held by pid {holder.process.pid} on "
        assert eventually(lambda: waiter.shows(words)), waiter.screen.read_text("utf-8")
        return waiter


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    for run in made.started:
        run.process.kill()
        run.process.wait()


def test_the_second_of_two_runs_waits_and_both_end_as_each_does_alone(runs: Runs) -> None:
    alone = runs.start("alone").verdicts()
    assert (alone["speedup.code"], alone["speedup.code.itl"]) == (("pass", "held"), ("fail", "below_floor"))
    holder = runs.start_holder()
    waiter = runs.start_waiter(holder)
    assert waiter.shows("waiting for the device cpu, 0 s of at most 3600 s")
    assert waiter.shows("pytest"), "the holder's command"
    assert not (waiter.directory / "generations.jsonl").exists()
    (runs.directory / "go").touch()
    assert holder.verdicts() == waiter.verdicts() == alone


def test_the_death_of_the_holder_lets_the_waiter_go_on(runs: Runs) -> None:
    holder = runs.start_holder()
    waiter = runs.start_waiter(holder)
    holder.process.kill()
    assert waiter.verdicts()["speedup.code"] == ("pass", "held")
    assert eventually(lambda: not servers_of(holder.directory))


def test_a_device_that_is_not_free_in_time_voids_the_claims_and_breaks_nothing(runs: Runs) -> None:
    holder = runs.start_holder()
    waiter = runs.start_waiter(holder, "--specdec-lock-timeout=2s")
    assert waiter.verdicts()["speedup.code"] == ("void", "device_failed")
    detail = results_of(waiter.directory)["speedup.code"]["detail"]
    assert f"cpu is held by pid {holder.process.pid}" in detail
    assert "raise --specdec-lock-timeout" in detail
    assert holder.process.poll() is None
    (runs.directory / "go").touch()
    assert holder.verdicts()["speedup.code"] == ("pass", "held")
