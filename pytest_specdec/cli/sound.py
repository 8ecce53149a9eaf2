"""Which of the files that runs left behind can be read: one that is broken is named, and costs no other its history."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_specdec.records import Json

__all__ = ["sound", "warn"]


def sound(results: Sequence[Path], history: Path, folder: Path) -> tuple[list[str], Path]:
    """Those of ``results`` and of the lines in ``history`` that can be read, as files, and where the lines now are.

    What cannot is named on the standard error stream. Where that is a line, the others are copied into ``folder``.
    """
    files = [str(path) for path in results if not _told(str(path), _fault_of(path))]
    lines = history.read_bytes().decode(errors="replace").splitlines() if history.exists() else []
    kept = [text for n, text in enumerate(lines, 1) if text and not _told(f"{history} line {n}", _fault(text))]
    if len(kept) < len(lines):
        history = folder / history.name
        history.write_text("".join(f"{line}\n" for line in kept), "utf-8")
    return [*files, *([str(history)] if kept else [])], history


def warn(words: str) -> None:
    """On the standard error stream: what is printed may be read by a program."""
    print(f"warning: {words}", file=sys.stderr)


def _told(where: str, fault: str) -> bool:
    if fault:
        warn(f"skipped {where}: {fault}")
    return bool(fault)


def _fault_of(path: Path) -> str:
    try:
        return _fault(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        return f"it cannot be read: {error}"


def _fault(text: str) -> str:
    """Why that is not the outcome of a run; empty where it is."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    return "" if _is_outcome(document) else "it is not the outcome of a run"


def _is_outcome(document: Json) -> bool:
    if not isinstance(document, dict) or not isinstance(document.get("run"), str):
        return False
    build, verdicts = document.get("build"), document.get("verdicts")
    if not isinstance(build, dict) or not isinstance(build.get("number"), int | None):
        return False
    return isinstance(verdicts, list) and all(
        isinstance(v, dict) and isinstance(v.get("claim"), str) and isinstance(v.get("evidence"), dict)
        for v in verdicts
    )
