"""Entries and their changes in words, for review."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import Any

from pytest_specdec.baseline.compare import OLD_DAYS
from pytest_specdec.baseline.store import Baselines
from pytest_specdec.records import Json

__all__ = ["age_days", "document_changes", "entry_words", "old_entries", "unused"]


def document_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What changed between two baseline documents, one line per entry and field; empty when nothing did."""
    lines = [
        f"{name}: {before.get(name)} → {after.get(name)}"
        for name in ("profile", "device", "about")
        if before.get(name) != after.get(name)
    ]
    old, new = before.get("entries", {}), after.get("entries", {})
    for claim in sorted({*old, *new}):
        if claim not in old:
            lines.append(f"+ {claim}: {entry_words(new[claim])}")
        elif claim not in new:
            lines.append(f"- {claim}: {entry_words(old[claim])}")
        elif old[claim] != new[claim]:
            lines += _entry_changes(claim, old[claim], new[claim])
    return lines + list(_deviation_changes(before, after))


def entry_words(row: Mapping[str, Any]) -> str:
    """One entry of a document on one line."""
    if "value" in row:
        provenance = row.get("provenance", {})
        origin = f", {provenance['build']} of {provenance['date']}" if provenance else f", {row.get('source', '')}"
        return f"{row['kind']} {row['value']:g} {row.get('unit', '')}{origin}"
    lineages = "; ".join(f"{lineage['expect']} ({lineage['name']})" for lineage in row.get("lineages", ()))
    return f"{row['kind']} {lineages}".strip()


def unused(baselines: Baselines, declared: Iterable[str]) -> list[str]:
    """Entries and known deviations that no declared claim has, so that nothing ever reads them."""
    known = set(declared)
    entries = [claim for claim in sorted(baselines.entries) if claim not in known]
    deviations = [
        f"known deviation {d.claim} ({d.reference})"
        for d in baselines.deviations
        if not any(fnmatchcase(claim, d.claim.replace("[", "[[]")) for claim in known)
    ]
    return entries + deviations


def age_days(provenance: Mapping[str, Json], today: date) -> int | None:
    """Days since an entry was recorded; None where it does not say."""
    recorded = provenance.get("date")
    return (today - date.fromisoformat(str(recorded))).days if recorded else None


def old_entries(document: Mapping[str, Any], today: date) -> list[str]:
    """A line for each entry that was recorded longer ago than a record is trusted without a remark."""
    ages = {claim: age_days(row.get("provenance", {}), today) for claim, row in document["entries"].items()}
    return [
        f"{claim}: recorded {age} days ago; record anew with --specdec-update-baseline"
        for claim, age in sorted(ages.items())
        if age is not None and age > OLD_DAYS
    ]


def _entry_changes(claim: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if "value" in old and "value" in new:
        yield f"~ {claim}: {_value_words(old, new)}"
    else:
        yield f"~ {claim}:"
    for path, before, after in _leaves(old, new):
        if path not in ("value", "unit"):
            yield f"    {path}: {_short(before)} → {_short(after)}"


def _value_words(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    words = f"{old['value']:g} → {new['value']:g} {new.get('unit', '')}"
    if not old["value"] or old["value"] == new["value"]:
        return words
    change = new["value"] / old["value"] - 1
    direction = new.get("direction", "higher")
    verdict = "" if direction == "equal" else ", better" if (change > 0) == (direction == "higher") else ", worse"
    return f"{words} ({change:+.2%}{verdict})"


def _leaves(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each field whose value differs, with its dotted path."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _leaves(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield path, old, new


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str) and len(value) == 64:
        return value[:12]
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 6:
        return f"{len(value)} values"
    return str(value)


def _deviation_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old = before.get("known_deviations", [])
    new = after.get("known_deviations", [])
    yield from (f"- known deviation {row['claim']}: {row['instead']}" for row in old if row not in new)
    yield from (f"+ known deviation {row['claim']}: {row['instead']}" for row in new if row not in old)
