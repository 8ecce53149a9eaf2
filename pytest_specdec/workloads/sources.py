"""Where the prompts of a workload come from: the package, a local JSONL file, or the ``datasets`` package."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_specdec.errors import ProfileError
from pytest_specdec.records import Prompt

__all__ = ["packaged", "prompts_of"]

_REPEAT_TURN = 10
_LIVECODEBENCH = ("question_id", "question_content", "starter_code")


def prompts_of(name: str, sizes: Mapping[str, Any], origin: str) -> tuple[Prompt, ...]:
    """The prompts that the workload's table asks for, as many as it asks for.

    Raises ProfileError when they cannot be had; nothing is downloaded unless the table names a ``dataset``.
    """
    if "path" in sizes:
        rows: Iterable[Prompt] = _from_jsonl(_resolved(sizes["path"], origin))
    elif "dataset" in sizes:
        rows = _from_datasets(sizes["dataset"])
    else:
        rows = packaged(sizes.get("data", name))
    return tuple(islice(rows, sizes.get("prompts")))


def packaged(data: str) -> Iterator[Prompt]:
    """The prompts of that name that ship with the package. Raises ProfileError."""
    resource = resources.files("pytest_specdec.workloads").joinpath("data", f"{data}.json")
    if not resource.is_file():
        raise ProfileError(f"reading the prompts {data!r}", "the package has no such prompt data", "correct its `data`")
    document = json.loads(resource.read_text("utf-8"))
    for row in document.get("prompts", ()):
        request = row.get("request", {})
        yield Prompt(id=row["id"], text=row["text"], group=row.get("group", ""), request=request)
    for number, row in enumerate(document.get("turns", ()), start=1):
        yield Prompt(id=row["id"], text=row["text"], group=_phase(number))


def _phase(turn: int) -> str:
    """A session builds in turns 1 to 9, asks for a whole file again in turn 10, and maintains from then on."""
    return "build" if turn < _REPEAT_TURN else "repeat" if turn == _REPEAT_TURN else "maintain"


def _resolved(path: str, origin: str) -> Path:
    """As given, or beside the profile file."""
    given = Path(os.path.expandvars(path)).expanduser()
    return given if given.is_absolute() or given.is_file() else Path(origin).parent / given


def _from_jsonl(path: Path) -> Iterator[Prompt]:
    try:
        with path.open(encoding="utf-8") as handle:
            for number, line in enumerate(handle, start=1):
                if line.strip():
                    yield _prompt(json.loads(line), f"{path}, line {number}")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ProfileError(f"reading the prompts of {path}", str(error), "correct the file or its path") from None


def _from_datasets(reference: str) -> Iterator[Prompt]:
    try:
        import datasets
    except ImportError:
        raise ProfileError(
            f"reading the prompts of the data set {reference}",
            "the package `datasets` is not installed",
            "pip install datasets, or give the same rows as JSONL with `path`",
        ) from None
    name, _, config = reference.partition(":")
    for number, row in enumerate(datasets.load_dataset(name, config or None, split="test", streaming=True)):
        yield _prompt(row, f"{reference}, row {number}")


def _prompt(row: Mapping[str, Any], where: str) -> Prompt:
    """``id`` and ``text``, or the fields of LiveCodeBench: the question and the code to begin with."""
    if "text" in row and "id" in row:
        return Prompt(str(row["id"]), str(row["text"]), str(row.get("group", "")))
    identity, question, starter = (row.get(name) for name in _LIVECODEBENCH)
    if not identity or not question:
        raise ProfileError(
            f"reading the prompts of {where}",
            f"it has {', '.join(sorted(row))}",
            "give `id` and `text`, or LiveCodeBench's question_id and question_content",
        )
    code = f"\n\nBegin with this code:\n```python\n{starter}\n```" if starter else ""
    return Prompt(str(identity), f"Solve this in Python.\n\n{question}{code}\n")
