"""Columns of text, for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_specdec.report.escape import one_line

__all__ = ["table"]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell, the last one as it is."""
    cells = [header, *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[number]) for row in cells) for number in range(len(header) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in cells
    ]
    return "\n".join(lines)
