"""Older baseline documents in the current schema, one step per version.

A file is migrated where it is read and stays as it is on disk until a run records into it. A step must not guess: what
an older file did not say is left out, so that the entry compares as different and is recorded anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_specdec.records import Json

__all__ = ["SCHEMA_VERSION", "migrated"]

SCHEMA_VERSION = 2


def migrated(document: Json) -> Json:
    """The document one version after another. What is no baseline at all is left for the schema to refuse."""
    while isinstance(document, dict) and (step := _STEPS.get(_version(document))) is not None:
        document = step(document)
    return document


def _version(document: dict[str, Any]) -> int:
    version = document.get("schema")
    return version if type(version) is int else -1


def _from_1(document: dict[str, Any]) -> dict[str, Any]:
    """Version 2 keeps a hash for each workload of a claim; version 1 had one hash, that of the first."""
    entries = document.get("entries")
    if not isinstance(entries, dict):
        return document | {"schema": 2}
    return document | {"schema": 2, "entries": {claim: _entry_from_1(row) for claim, row in entries.items()}}


def _entry_from_1(row: Json) -> Json:
    comparability = row.get("comparability") if isinstance(row, dict) else None
    if not isinstance(comparability, dict) or not isinstance(comparability.get("workload"), str):
        return row
    rest = {key: value for key, value in comparability.items() if key not in ("workload", "workload_sha256")}
    first = comparability["workload"].partition(" ")[0]
    return row | {"comparability": rest | {"workloads": {first: comparability.get("workload_sha256")}}}


_STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1}
