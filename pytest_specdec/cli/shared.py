"""What several commands need: settings, runs, and pytest as a process of its own."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pytest_specdec.errors import LedgerError, SuiteError
from pytest_specdec.naming import environment_name, ini_name
from pytest_specdec.places import RUNS, configurations
from pytest_specdec.report.data import RESULTS

__all__ = [
    "Commands",
    "add_setting",
    "device_name",
    "pytest_command",
    "pytest_refused",
    "run_quietly",
    "runs_with_results",
    "take_settings",
]

_SETTINGS = "specdec_settings"
_PREFIX = "specdec_"
_PLUGIN = "pytest_specdec.integrations.settings"
_TAIL_LINES = 20


class Commands(Protocol):
    """What ``ArgumentParser.add_subparsers`` gives, whose class argparse does not publish."""

    def add_parser(self, name: str, **keywords: Any) -> Any:
        """A parser of one command."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """An option of a command that a run has too."""

    flag: str
    dest: str
    type: Callable[[str], Any]
    default: Any


def add_setting(parser: Any, flag: str, *, dest: str, default: Any = None, **keywords: Any) -> None:
    """An option that a run has too, under the same three names; ``take_settings`` looks at the other two."""
    setting = _Setting(flag, dest, keywords.get("type", str), default)
    known = parser.get_default(_SETTINGS) or ()
    parser.set_defaults(**{_SETTINGS: (*known, setting)})
    names = f"[ini {ini_name(flag)}, env {environment_name(flag)}]"
    words = f"{keywords.get('help', '')} {names}".strip()
    parser.add_argument(flag, **keywords | {"dest": dest, "help": words, "type": _not_empty(setting.type)})


def _not_empty(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """An empty text is what a variable that is not set leaves behind, and never what was meant."""

    def parsed(text: str) -> Any:
        if not text.strip():
            raise argparse.ArgumentTypeError("is empty; was a variable not set? Give a value or leave it out")
        return parse(text)

    return parsed


def take_settings(arguments: argparse.Namespace) -> None:
    """Where the command line says nothing the environment counts, then the ini file, as for a run.

    Raises SuiteError where pytest cannot read its configuration.
    """
    silent = [s for s in getattr(arguments, _SETTINGS, ()) if getattr(arguments, s.dest) is None]
    from_environment = {s.flag: os.environ.get(environment_name(s.flag)) for s in silent}
    in_file = {} if all(from_environment.values()) else _ini_settings(getattr(arguments, "paths", ()))
    for setting in silent:
        text = from_environment[setting.flag] or in_file.get(setting.flag)
        setattr(arguments, setting.dest, setting.type(text) if text else setting.default)


def _ini_settings(paths: Sequence[str]) -> dict[str, str]:
    """By flag, for a run on ``paths``. pytest is asked, which takes a moment, where a file of it names a setting."""
    places = [Path.cwd(), *(Path(path.partition("::")[0]).absolute() for path in paths)]
    files = [file for place in places for file in configurations(place)]
    if not any(_PREFIX in path.read_text("utf-8", errors="replace") for path in files):
        return {}
    with tempfile.TemporaryDirectory(prefix="specdec-settings-") as folder:
        target = Path(folder) / "settings.json"
        done = run_quietly(["-p", _PLUGIN, *paths], {**os.environ, "SPECDEC_SETTINGS": str(target)})
        if not target.exists():
            raise pytest_refused(f"reading the settings in {files[0]}", done, "correct the file")
        found: dict[str, str] = json.loads(target.read_text("utf-8"))
    return found


def runs_with_results(root: Path) -> list[Path]:
    """The runs under ``root`` that left results, the newest first. Raises LedgerError when there is none."""
    found = sorted((root / RUNS).glob(f"*/{RESULTS}"), key=lambda path: path.stat().st_mtime, reverse=True)
    if not found:
        raise LedgerError(f"looking for a run in {root / RUNS}", "none has left results", "run pytest, or name one")
    return [path.parent for path in found]


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


def pytest_refused(tried: str, done: subprocess.CompletedProcess[str], remedy: str) -> SuiteError:
    """What pytest said at its end, as an error of ours."""
    tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_TAIL_LINES:])
    return SuiteError(tried, f"pytest ended with status {done.returncode}:\n{tail}", remedy)
