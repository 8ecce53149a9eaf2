"""What is shown while a measurement goes on."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_specdec import progress
from pytest_specdec.measure.runner import progress_words
from pytest_specdec.progress import Progress


class Screen:
    """A configuration whose terminal is ``columns`` wide, on which pytest has written ``written`` characters."""

    def __init__(self, columns: int = 80, written: int = 0) -> None:
        self.writer = SimpleNamespace(fullwidth=columns, width_of_current_line=written)
        self.pluginmanager = self

    def getplugin(self, name: str) -> Any:
        """The capture manager."""
        return self

    def hasplugin(self, name: str) -> bool:
        """The terminal reporter."""
        return True

    def get_terminal_writer(self) -> Any:
        """pytest's."""
        return self.writer

    @contextlib.contextmanager
    def global_and_fixture_disabled(self) -> Iterator[None]:
        """Nothing is captured."""
        yield


def made(screen: Any, monkeypatch: pytest.MonkeyPatch) -> Progress:
    """One that writes every word into a log."""
    monkeypatch.setattr(progress, "_LOG_INTERVAL_S", -1.0)
    return Progress(screen, quiet=False)


def test_in_a_log_each_has_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(written=12)
    tell = made(screen, monkeypatch)
    tell("one")
    tell("two")
    screen.writer.width_of_current_line += 1
    tell("three")
    tell.waiting("four")
    assert capsys.readouterr().out == "\n  one\n  two\n\n  three\n  four\n"


def test_at_the_begin_of_a_line_none_is_left_empty(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made(Screen(), monkeypatch)("one")
    assert capsys.readouterr().out == "  one\n"


@pytest.mark.parametrize(("columns", "shown"), [(80, " abcdef"), (17, " abc…"), (13, ""), (5, "")])
def test_on_a_terminal_what_has_no_room_is_cut(
    columns: int, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    made(Screen(columns, written=10), monkeypatch)("abcdef")
    assert capsys.readouterr().out.partition("\x1b")[0] == shown


def test_what_matters_comes_first() -> None:
    told = progress_words("code-8k", 1, 12, 186.0, (5, 6))
    assert told == "code-8k: round 1 of at most 12, at most 3.1 min, 5 of 6 claims open"
    assert progress_words("code", 2, 3, None, (1, 1)) == "code: round 2 of at most 3, 1 of 1 claim open"
