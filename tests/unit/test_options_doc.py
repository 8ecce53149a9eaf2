"""docs/options.md is made from the table of options."""

from pathlib import Path

from pytest_specdec.options import as_markdown

DOC = Path(__file__).parents[2] / "docs" / "options.md"


def test_the_page_has_the_table_as_it_is_now() -> None:
    remedy = "write it anew: python -c 'from pytest_specdec.options import as_markdown; print(as_markdown())'"
    assert as_markdown() in DOC.read_text("utf-8"), remedy
