"""docs/options.md is made from the table of options, and every page writes them alike."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_specdec.options import OPTIONS, as_markdown

ROOT = Path(__file__).parents[2]
DOC = ROOT / "docs" / "options.md"


def test_the_page_has_the_table_as_it_is_now() -> None:
    remedy = "write it anew: python -c 'from pytest_specdec.options import as_markdown; print(as_markdown())'"
    assert as_markdown() in DOC.read_text("utf-8"), remedy


def test_values_are_written_with_an_equals_sign() -> None:
    """pytest takes a path that stands alone for a place to look for its configuration."""
    flags = "|".join(option.flag for option in OPTIONS if option.metavar)
    apart = re.compile(rf'(?:{flags}) (?:"|[A-Z]{{2,}}\b|\w*/|\{{)')
    explains = ROOT / "pytest_specdec" / "options" / "lost.py"
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    sources = [path for path in (ROOT / "pytest_specdec").rglob("*.py") if path != explains]
    found = {str(path): apart.findall(path.read_text("utf-8")) for path in [*pages, *sources]}
    assert {path: words for path, words in found.items() if words} == {}


def test_the_front_page_names_every_other() -> None:
    named = (ROOT / "README.md").read_text("utf-8")
    assert [path.name for path in (ROOT / "docs").glob("*.md") if f"docs/{path.name}" not in named] == []
