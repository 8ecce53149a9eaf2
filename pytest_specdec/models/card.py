"""What each member of the tiny family is and does: the manifest, and what a llama-server measured with these files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.errors import ModelError
from pytest_specdec.models.family import REINSTALL, SHIPPED, Member, members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["Figures", "card_text", "figures"]

CARD = "card.json"
NONE = "-".rjust(11)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one arm did with one workload: greedy, one thread, one request at a time."""

    arm: str
    workload: str
    prompts: int
    tokens: int
    drafted: int
    accepted: int
    acceptance: float
    tokens_per_cycle: float
    ended: int
    looping: int
    same_as_base: int


def figures(directory: Path | None = None) -> dict[tuple[str, str], Figures]:
    """The measured figures by arm (``dflash2@7``) and workload (``code``)."""
    root = directory or SHIPPED
    card = _card(root)
    try:
        return {
            (arm, workload): Figures(arm=arm, workload=workload, **row)
            for arm, rows in card["arms"].items()
            for workload, row in rows.items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"read {root / CARD}", f"it is not a card ({type(error).__name__}: {error})", REINSTALL
        ) from error


def card_text(directory: Path | None = None) -> str:
    """The card as a page of plain text."""
    root = directory or SHIPPED
    known, card, rows = members(root), _card(root), figures(root)
    lines = ["The tiny family of pytest-specdec", ""]
    for member in known.values():
        lines += [*_about(member), ""]
    lines += [
        "Source texts: the project's own corpus, dedicated to the public domain (CC0), and nothing else.",
        "",
        f"Measured with {card['server']}, {card['threads']} thread, greedy, by",
        f"  {card['command']}",
        "Tokens per cycle, and the accepted share of the drafted tokens:",
        "",
        *_table(rows),
    ]
    return "\n".join(lines)


def _about(member: Member) -> Iterator[str]:
    yield f"{member.name}: {member.about}"
    yield f"  {member.file}, {member.arch}, {member.parameters:,} parameters, {member.size:,} bytes"
    yield f"  SHA-256 {member.sha256}"
    training = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in member.training.items())
    yield f"  trained: {training}"


def _table(rows: Mapping[tuple[str, str], Figures]) -> Iterator[str]:
    arms = list(dict.fromkeys(arm for arm, _ in rows))
    workloads = list(dict.fromkeys(workload for _, workload in rows))
    width = max(map(len, arms))
    yield " ".join(["arm".ljust(width), *(name.rjust(11) for name in workloads)])
    for arm in arms:
        cells = [rows.get((arm, name)) for name in workloads]
        yield " ".join(
            [arm.ljust(width), *(f"{c.tokens_per_cycle:5.2f} {c.acceptance:5.0%}" if c else NONE for c in cells)]
        )


def _card(root: Path) -> dict[str, Any]:
    path = root / CARD
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(f"read {path}", "the card does not exist", REINSTALL) from error
    except (OSError, ValueError) as error:
        raise ModelError(f"read {path}", f"it cannot be read: {error}", REINSTALL) from error
    if not isinstance(content, dict):
        raise ModelError(f"read {path}", "it is not a card: no JSON object", REINSTALL)
    declared = {name: member.sha256 for name, member in members(root).items()}
    if content.get("members") != declared:
        raise ModelError(f"read {path}", "it was measured with other files than the manifest lists", REINSTALL)
    return content
