"""What several commands need: tables, runs, and pytest as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pytest_specdec.errors import LedgerError
from pytest_specdec.naming import environment_name
from pytest_specdec.places import RUNS
from pytest_specdec.report.data import RESULTS
from pytest_specdec.report.escape import one_line

__all__ = ["Commands", "add_setting", "device_name", "latest_run", "pytest_command", "run_quietly", "table"]


class Commands(Protocol):
    """What ``ArgumentParser.add_subparsers`` gives, whose class argparse does not publish."""

    def add_parser(self, name: str, **keywords: Any) -> Any:
        """A parser of one command."""


def add_setting(parser: Any, flag: str, **keywords: Any) -> None:
    """An option that a run has too, under the same name; the environment stands for it as it does for a run."""
    variable = environment_name(flag)
    words = " ".join(filter(None, (keywords.pop("help", ""), f"[env {variable}]")))
    default = os.environ.get(variable) or keywords.pop("default", None)
    parser.add_argument(flag, **keywords | {"default": default, "help": words})


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell, the last one as it is."""
    cells = [header, *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[number]) for row in cells) for number in range(len(header) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def latest_run(root: Path) -> Path:
    """The newest run under ``root`` that came to its end. Raises LedgerError when there is none."""
    finished = sorted((root / RUNS).glob(f"*/{RESULTS}"), key=lambda path: path.stat().st_mtime)
    if not finished:
        raise LedgerError(f"looking for a run in {root / RUNS}", "none has come to its end", "run pytest, or name one")
    return finished[-1].parent


def device_name(selector: str | None) -> str:
    """The baseline key of the device that a run would take. Raises DeviceError."""
    from pytest_specdec.device.reader import open_device

    reader = open_device(selector)
    try:
        return reader.identity.baseline_key
    finally:
        reader.close()


def pytest_command(arguments: Sequence[str]) -> list[str]:
    """pytest in this very Python."""
    return [sys.executable, "-m", "pytest", *arguments]


def run_quietly(arguments: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """pytest with its output kept."""
    return subprocess.run(
        pytest_command(arguments), env=environment, capture_output=True, text=True, errors="replace", check=False
    )
