"""Stored entries: loaded, validated, compared, updated."""

from pytest_specdec.baseline.compare import compare, differences
from pytest_specdec.baseline.entries import Calibrated, Comparability, Entry, KnownDeviation, Lineage, StoredContrast
from pytest_specdec.baseline.store import Baselines, chosen_folder, load
from pytest_specdec.baseline.update import Record, Recording, write_calibrations, write_records

__all__ = [
    "Baselines",
    "Calibrated",
    "Comparability",
    "Entry",
    "KnownDeviation",
    "Lineage",
    "Record",
    "Recording",
    "StoredContrast",
    "chosen_folder",
    "compare",
    "differences",
    "load",
    "write_calibrations",
    "write_records",
]
