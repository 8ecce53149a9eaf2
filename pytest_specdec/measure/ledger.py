"""The run directory: who measured what, every generation as it ended, and the logs of the servers.

``run.json`` holds the identity, ``generations.jsonl`` one generation per line, ``cells.jsonl`` which cells are complete
or have failed, ``telemetry.jsonl`` what the device said meanwhile. Lines are written whole and flushed, so that a
killed run stays readable up to its last generation.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import IO, Any

from filelock import FileLock

from pytest_specdec.errors import LedgerError
from pytest_specdec.records import (
    Alternative,
    CellKey,
    Counters,
    FigureKind,
    Generation,
    Json,
    MemoryUse,
    Mode,
    Reason,
    Status,
    StopType,
    Timings,
    Void,
)

if sys.platform != "win32":
    import fcntl

__all__ = ["Ledger", "append_line", "plain", "void_of"]


class Ledger:
    """One run directory. Several processes may append to it; ``locked`` keeps them apart where order matters.

    ``device`` is the one that this process measures on: what another device has measured is no evidence for it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.device: str | None = None
        try:
            (directory / "logs").mkdir(parents=True, exist_ok=True)
            (directory / "locks").mkdir(exist_ok=True)
        except OSError as error:
            raise LedgerError(
                f"making the run directory {directory}", str(error), "choose another with --specdec-run-dir"
            ) from None

    @property
    def is_begun(self) -> bool:
        """Whether a run has left its identity here."""
        return (self.directory / "run.json").exists()

    @property
    def identity(self) -> Mapping[str, Any]:
        """What ``begin`` wrote. Raises LedgerError when it cannot be read."""
        path = self.directory / "run.json"
        try:
            found: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise LedgerError(f"reading {path}", str(error), "name the directory of a run") from None
        return found

    def begin(self, identity: Mapping[str, Json]) -> None:
        """Write ``run.json``."""
        self._write("run.json", identity)

    def write_results(self, results: Mapping[str, Json]) -> Path:
        """Write ``results.json`` and return its path."""
        return self._write("results.json", results)

    def keep(self, name: str, content: Mapping[str, Json]) -> None:
        """Keep what was found once for the whole run, such as the numeric noise."""
        self._write(f"{name}.json", content)

    def kept(self, name: str) -> Mapping[str, Any] | None:
        """What ``keep`` kept under that name; None when nothing was."""
        path = self.directory / f"{name}.json"
        found: Mapping[str, Any] | None = json.loads(path.read_text("utf-8")) if path.exists() else None
        return found

    def append(self, generation: Generation) -> None:
        """Keep one generation, on disk before this returns."""
        row = plain(generation)
        if self.device is not None:
            row["device"] = {"key": self.device, **row["device"]}
        append_line(self.directory / "generations.jsonl", row)

    def finish_cell(
        self, key: CellKey, log: str | None, failure: Mapping[str, Json] | None = None, *,
        memory: MemoryUse | None = None, voids: Sequence[Void] = (),
    ) -> None:  # fmt: skip
        """Mark a cell as complete, or as failed so that nobody tries it again in this run.

        ``voids`` are those that nothing but this measurement knows.
        """
        row = {"cell": plain(key), "log": log, "failure": failure, "memory": plain(memory), "voids": plain(voids)}
        row["device"] = self.device
        append_line(self.directory / "cells.jsonl", row)

    def reopen_void(self) -> None:
        """Failures that say nothing about the build hold for the run that met them, not for one that goes on with it.

        Their lines stay; whoever asks for such a cell from here on measures it again.
        """
        for key, row in self.cells().items():
            if row["failure"] and row["failure"]["status"] == Status.VOID:
                reopened = {"cell": plain(key), "reopened": True, "device": row.get("device")}
                append_line(self.directory / "cells.jsonl", reopened)

    def cells(self) -> dict[CellKey, Mapping[str, Any]]:
        """The finished cells: key → its line in ``cells.jsonl``."""
        rows = [row for row in self._lines("cells.jsonl") if self._is_here(row.get("device"))]
        latest = {_cell_key(row["cell"]): row for row in rows}
        return {key: row for key, row in latest.items() if not row.get("reopened")}

    def generations(self, key: CellKey) -> tuple[Generation, ...]:
        """Every generation of one cell, in the order in which they ended."""
        known = map(_generation, self._lines("generations.jsonl"))
        return tuple(g for g in known if g.cell == key and self._is_here(g.device.get("key")))

    def _is_here(self, device: str | None) -> bool:
        return None in (device, self.device) or device == self.device

    def log_path(self, stem: str) -> Path:
        """A new log file, empty, that no other process has got."""
        folder = self.directory / "logs"
        with self.locked("logs"):
            path = folder / f"{len(list(folder.glob('*.log'))) + 1:03d}-{stem.replace('/', '-')}.log"
            path.touch()
        return path

    @property
    def telemetry_path(self) -> Path:
        """Where this process keeps its readings of the device; xdist's workers each watch one of their own."""
        worker = os.environ.get("PYTEST_XDIST_WORKER")
        return self.directory / (f"telemetry-{worker}.jsonl" if worker else "telemetry.jsonl")

    def locked(self, name: str) -> FileLock:
        """A lock of this run, between the processes that work for it."""
        return FileLock(self.directory / "locks" / f"{name.replace('/', '-')}.lock")

    def _lines(self, name: str) -> Iterator[dict[str, Any]]:
        """A line that a killed run left unfinished is passed over."""
        path = self.directory / name
        if not path.exists():
            return
        with path.open("rb") as handle:
            for line in handle:
                row = _decoded(line) if line.endswith(b"\n") else None
                if row is not None:
                    yield row

    def _write(self, name: str, content: Mapping[str, Json]) -> Path:
        path = self.directory / name
        unfinished = path.with_suffix(".partial")
        try:
            unfinished.write_bytes(_encoded(content, indent=2))
            unfinished.replace(path)
        except OSError as error:
            raise LedgerError(f"writing {path}", str(error), "make room, or use --specdec-run-dir") from None
        return path


def append_line(path: Path, content: Json) -> None:
    """One line of JSON, on disk before this returns, whole or not at all; one writer at a time. Raises LedgerError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as handle:
            _wait_for_turn(handle)
            line = _end_of_a_torn_line(handle) + _encoded(content, separators=(",", ":"))
            if handle.write(line) != len(line):
                raise OSError("only a part of a line could be written")
    except OSError as error:
        raise LedgerError(
            f"appending a line to {path}",
            str(error),
            "make room, or keep it elsewhere (--specdec-run-dir, --specdec-history)",
        ) from None


def _wait_for_turn(handle: IO[bytes]) -> None:
    """Alone with the file until it is closed: what another thread or process has half written is no torn line."""
    if sys.platform != "win32":
        fcntl.flock(handle, fcntl.LOCK_EX)


def _encoded(content: Json, **layout: Any) -> bytes:
    """A line of JSON. Half a character, which a server can send and UTF-8 cannot hold, becomes its JSON escape."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, **layout)
    return text.encode(errors="backslashreplace") + b"\n"


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _end_of_a_torn_line(handle: IO[bytes]) -> bytes:
    """A line break where a killed run left a line without one, so that only that line is lost."""
    if handle.seek(0, os.SEEK_END) == 0:
        return b""
    handle.seek(-1, os.SEEK_END)
    return b"" if handle.read(1) == b"\n" else b"\n"


def plain(value: object) -> Json:
    """A record as JSON values. Infinities and NaN, which JSON has no word for, become None."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def _generation(row: Mapping[str, Any]) -> Generation:
    counters = row["counters"]
    return Generation(
        **{
            **row,
            "cell": _cell_key(row["cell"]),
            "tokens": tuple(row["tokens"]),
            "stop_type": StopType(row["stop_type"]),
            "timings": Timings(**row["timings"]),
            "counters": counters
            and Counters(**{**counters, "accepted_per_position": tuple(counters["accepted_per_position"])}),
            "event_ns": tuple(row["event_ns"]),
            "event_tokens": tuple(row["event_tokens"]),
            "pieces": tuple(row["pieces"]),
            "alternatives": tuple(map(_alternative, row["alternatives"])),
            "voids": tuple(map(void_of, row["voids"])),
        }
    )


def _cell_key(row: Mapping[str, Any]) -> CellKey:
    return CellKey(**{**row, "mode": Mode(row["mode"])})


def _alternative(row: Mapping[str, Any]) -> Alternative:
    gap = row["gap_nats"]
    return Alternative(row["token"], float("inf") if gap is None else float(gap))


def void_of(row: Mapping[str, Any]) -> Void:
    return Void(Reason(row["reason"]), frozenset(map(FigureKind, row["figures"])), row["detail"])
