"""Text that others wrote (model output, logs, file names) made harmless where it is shown.

Whatever a build under test says may be an attack on the reader's terminal, on the page that shows the report, or on the
CI runner that reads its own log for commands.
"""

from __future__ import annotations

import html
import re
import unicodedata

__all__ = [
    "annotation_data",
    "annotation_property",
    "code",
    "cut",
    "one_line",
    "preformatted",
    "printable",
    "spreadsheet_text",
]

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# GitHub's runner takes commands from any line that begins so, after blanks too, and those of the old form anywhere.
_COMMAND_AT_START = re.compile(r"^(\s*)(?=::)", re.MULTILINE)
_OLD_COMMAND = re.compile(r"##(?=\[)")
# All else is written as a character reference: no Markdown, no HTML, no autolink can arise from what is left.
_NEEDS_NO_REFERENCE = re.compile(r"[^\W_]|[ ,;=%/()+−±≤≥→…'-]")
_FORMULA = ("=", "+", "-", "@")  # how a spreadsheet knows one
_NOT_TEXT = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})  # controls, bidirectional overrides, line separators


def printable(text: str) -> str:
    """For a terminal or a log: no escape sequence, no control character but tab and newline, no workflow command."""
    clean = _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    clean = "".join(c if c in "\t\n" or unicodedata.category(c) not in _NOT_TEXT else "�" for c in clean)
    return _OLD_COMMAND.sub("# #", _COMMAND_AT_START.sub(r"\1. ", clean))


def one_line(text: str) -> str:
    """The same on one line."""
    return " ".join(printable(text).split())


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters, with a sign that there was more."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def code(text: str) -> str:
    """For one line of Markdown, a table cell included: shown as it is, read as nothing else.

    GitHub looks for mentions and references in what was rendered, but not inside ``<code>``.
    """
    shown = "".join(_referenced(one_line(text)))
    return f"<code>{shown}</code>" if shown else ""


def preformatted(text: str) -> str:
    """Several lines of Markdown: a block that only its own closing tag can end, and no text can hold that tag."""
    return f"<pre>\n{html.escape(printable(text))}\n</pre>"


def spreadsheet_text(text: str) -> str:
    """A cell of a table that a spreadsheet may open: on one line, and never a formula."""
    line = one_line(text)
    return f"'{line}" if line.startswith(_FORMULA) else line


def annotation_data(text: str) -> str:
    """The message of a workflow command."""
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def annotation_property(text: str) -> str:
    """A property of a workflow command, such as a title."""
    return annotation_data(text).replace(":", "%3A").replace(",", "%2C")


def _referenced(text: str) -> list[str]:
    return [c if _is_plain(text, number, c) else f"&#{ord(c)};" for number, c in enumerate(text)]


def _is_plain(text: str, number: int, character: str) -> bool:
    """Letters and digits, and what stands harmlessly between them: ``1.5``, ``00:15``, ``tokens_per_cycle``."""
    if _NEEDS_NO_REFERENCE.match(character):
        return True
    before, after = text[max(0, number - 1) : number], text[number + 1 : number + 2]
    if character == "_":
        return before.isalnum() and after.isalnum()
    return character in ".:" and before.isdigit() and after.isdigit()
