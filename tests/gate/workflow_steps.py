"""Takes the shell steps out of workflows and actions and runs them as a runner does, up to what needs GitHub itself."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

__all__ = ["GITHUB", "Runner", "steps_of"]

GITHUB = Path(__file__).parents[2] / ".github"
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def steps_of(path: Path, job: str | None = None) -> dict[str, Mapping[str, Any]]:
    """The steps by name: of a composite action, or of one job of a workflow."""
    document = yaml.safe_load(path.read_text("utf-8"))
    steps = document["jobs"][job]["steps"] if job else document["runs"]["steps"]
    return {step.get("name", step.get("uses", "")): step for step in steps}


@dataclass
class Runner:
    """One job: its folders, what its steps have put out, and the values that expressions are replaced by."""

    folder: Path
    values: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.temp = self.folder / "temp"
        self.workspace = self.folder / "workspace"
        for path in (self.temp, self.workspace):
            path.mkdir(parents=True, exist_ok=True)
        self.summary = self.folder / "summary.md"
        self.outputs: dict[str, str] = {}

    def run(self, step: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        """Run its script in bash with the environment that the step declares; its outputs are kept."""
        output = self.folder / "output"
        output.write_text("", "utf-8")
        declared = {name: self.replaced(str(value)) for name, value in step.get("env", {}).items()}
        environment = {
            **os.environ,
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_ENV": str(self.folder / "env"),
            "RUNNER_TEMP": str(self.temp),
            **self.environment,
            **declared,
        }
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", self.replaced(step["run"])]
        done = subprocess.run(
            command, cwd=self.workspace, env=environment, capture_output=True, text=True, errors="replace", check=False,
            timeout=300,
        )  # fmt: skip
        for line in output.read_text("utf-8").splitlines():
            name, _, value = line.partition("=")
            self.outputs[f"steps.{step['id']}.outputs.{name}"] = value
        return done

    def replaced(self, text: str) -> str:
        """Expressions by their values. Raises KeyError for one that the test does not know."""
        return _EXPRESSION.sub(lambda match: {**self.values, **self.outputs}[match[1]], text)
