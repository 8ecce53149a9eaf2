"""Nothing that others wrote can act where it is shown."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pytest_specdec.report.escape import annotation_data, annotation_property, code, cut, preformatted, printable
from tests.unit.report.hostile import HOSTILE

TEXTS = st.one_of(st.text(), st.sampled_from(HOSTILE), st.text(alphabet="`*_|<>[]()!#&;:@\\~-\n\r .wht/"))


class _Seen(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it with its attributes: none is expected."""
        self.tags.append(tag + "".join(f" {name}" for name, _ in attrs))

    def handle_data(self, data: str) -> None:
        """Note it."""
        self.text += data


def _rendered(markdown: str) -> _Seen:
    seen = _Seen()
    seen.feed(MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(markdown))
    return seen


@given(TEXTS)
def test_a_line_of_code_is_shown_and_nothing_else(text: str) -> None:
    seen = _rendered(f"before {code(text)} after")
    assert seen.tags in (["p", "code"], ["p"])
    assert " ".join(seen.text.split()) == " ".join(f"before {printable(text)} after".split())


@given(TEXTS)
def test_a_table_keeps_its_columns(text: str) -> None:
    seen = _rendered(f"| a | b |\n|---|---|\n| {code(text)} | {code(text)} |\n")
    assert [tag for tag in seen.tags if tag != "code"] == [
        "table",
        "thead",
        "tr",
        "th",
        "th",
        "tbody",
        "tr",
        "td",
        "td",
    ]


@given(TEXTS)
def test_a_block_ends_where_it_should(text: str) -> None:
    seen = _rendered(f"<details><summary>x</summary>\n\n{preformatted(text)}\n\n</details>\n\n*after*\n")
    assert seen.tags == ["details", "summary", "pre", "p", "em"]


@given(TEXTS)
def test_a_log_holds_no_command_and_no_escape(text: str) -> None:
    shown = printable(text)
    assert "\x1b" not in shown
    assert "##[" not in shown
    assert not any(line.strip().startswith("::") for line in shown.splitlines())


@given(TEXTS)
def test_an_annotation_is_one_command(text: str) -> None:
    line = f"::error title={annotation_property(text)}::{annotation_data(text)}"
    assert "\n" not in line
    assert "\r" not in line
    properties = line.removeprefix("::error ").partition("::")[0]
    assert "," not in properties
    assert ":" not in properties


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("tokens_per_cycle[dflash2]", "tokens_per_cycle&#91;dflash2&#93;"),
        ("1.5 at 00:15", "1.5 at 00:15"),
        ("http://x.y", "http&#58;//x&#46;y"),
        ("_under_", "&#95;under&#95;"),
    ],
)
def test_ordinary_words_stay_readable_in_the_source(text: str, shown: str) -> None:
    assert code(text) == f"<code>{shown}</code>"


def test_a_cut_text_says_that_there_was_more() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("abcd", 4) == "abcd"
