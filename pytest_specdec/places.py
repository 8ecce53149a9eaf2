"""Where things lie: the data that the package brings, and the directories of runs."""

from __future__ import annotations

import datetime
import secrets
from importlib import resources
from pathlib import Path

__all__ = ["HISTORY", "RUNS", "baselines_folder", "new_run_dir", "packaged"]

RUNS = Path(".specdec") / "runs"
HISTORY = Path(".specdec") / "history.jsonl"


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
