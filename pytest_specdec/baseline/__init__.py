"""Stored entries: loaded, validated, compared, updated."""

from pytest_specdec.baseline.compare import compare
from pytest_specdec.baseline.entries import Comparability, Entry, KnownDeviation, Lineage
from pytest_specdec.baseline.store import Baselines, load
from pytest_specdec.baseline.update import Record, write_records

__all__ = [
    "Baselines",
    "Comparability",
    "Entry",
    "KnownDeviation",
    "Lineage",
    "Record",
    "compare",
    "load",
    "write_records",
]
