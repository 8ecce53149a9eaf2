"""Where things lie: the data that the package brings, and the directories of runs."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

__all__ = ["HISTORY", "RUNS", "baselines_folder", "configurations", "new_run_dir", "packaged"]

RUNS = Path(".specdec") / "runs"
HISTORY = Path(".specdec") / "history.jsonl"

# Where pytest finds its configuration, and by which words a file shows that it has one; None: by being there.
_CONFIGURATIONS = {
    "pytest.toml": None,
    ".pytest.toml": None,
    "pytest.ini": None,
    ".pytest.ini": None,
    "pyproject.toml": "[tool.pytest",
    "tox.ini": "[pytest]",
    "setup.cfg": "[tool:pytest]",
}


def packaged(folder: str) -> Path:
    """A data folder of the project: inside an installed package, or at the root of a checkout."""
    inside = Path(str(resources.files("pytest_specdec"))) / folder
    return inside if inside.is_dir() else inside.parent.parent / folder


def baselines_folder(root: Path) -> Path:
    """The baselines of a project: its own ``baselines``, else those of the package."""
    return root / "baselines" if (root / "baselines").is_dir() else packaged("baselines")


def new_run_dir(root: Path) -> Path:
    """A fresh place under ``.specdec/runs``, named by the time."""
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return root / RUNS / f"{now}-{secrets.token_hex(3)}"


def configurations(directory: Path) -> Iterator[Path]:
    """The files at or above ``directory`` from which pytest would take its configuration."""
    for folder in (directory, *directory.parents):
        for name, section in _CONFIGURATIONS.items():
            path = folder / name
            if path.is_file() and (section is None or section in path.read_text("utf-8", errors="replace")):
                yield path
