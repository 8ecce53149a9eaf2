"""Tells what is being measured while pytest says nothing: a line that erases itself, or plain lines in a log."""

from __future__ import annotations

import sys
import time

import pytest

__all__ = ["Progress"]

_LOG_INTERVAL_S = 15.0
_NEW_WAIT_S = 3.0  # without a word of waiting for that long, the next one begins another wait


class Progress:
    """Called with a few words whenever the work moves on."""

    def __init__(self, config: pytest.Config, quiet: bool) -> None:
        self._capture = config.pluginmanager.getplugin("capturemanager")
        self._terminal = config.get_terminal_writer() if config.pluginmanager.hasplugin("terminalreporter") else None
        self._quiet = quiet or self._terminal is None
        self._last_s = time.monotonic()
        self._waited_s = -_NEW_WAIT_S
        self._width_then = 0  # of pytest's line when a line of ours was written

    def __call__(self, words: str) -> None:
        """Show the words. On a terminal they stand behind what pytest has written and go when it writes on."""
        if self._quiet or self._terminal is None:
            return
        with self._capture.global_and_fixture_disabled():
            if sys.stdout.isatty():
                self._behind_the_cursor(words)
            elif time.monotonic() - self._last_s > _LOG_INTERVAL_S:
                self._last_s = time.monotonic()
                self._on_a_line(words)

    def waiting(self, words: str) -> None:
        """As ``__call__``, for a wait: its first words, such as who holds the device, stay on a line of their own."""
        begins = time.monotonic() - self._waited_s > _NEW_WAIT_S
        self._waited_s = time.monotonic()
        if not begins or self._quiet or self._terminal is None:
            self(words)
            return
        self._last_s = time.monotonic()
        with self._capture.global_and_fixture_disabled():
            self._on_a_line(words)

    def _on_a_line(self, words: str) -> None:
        """Of its own. Where pytest has written nothing since the last one the cursor is at the begin of a line."""
        assert self._terminal is not None
        width = self._terminal.width_of_current_line
        begin = "" if width in (0, self._width_then) else "\n"
        self._width_then = width
        print(f"{begin}  {words}", flush=True)  # noqa: T201  pytest's own writer would count it as its line

    def _behind_the_cursor(self, words: str) -> None:
        assert self._terminal is not None
        room = self._terminal.fullwidth - self._terminal.width_of_current_line - 2
        shown = f" {words}"
        if len(shown) > room:
            shown = shown[: room - 1] + "…" if room > 1 else ""
        # Write, clear the rest of the line, and step back: the next thing pytest writes goes over it.
        back = f"\x1b[{len(shown)}D" if shown else ""
        print(f"{shown}\x1b[K{back}", end="", flush=True)  # noqa: T201
