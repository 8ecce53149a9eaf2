"""How this package waits: one loop, with a limit, whose clock, sleep and audience are given by the caller."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Waited", "Waiting"]

_TELL_EVERY_S = 1.0


def _nobody(line: str) -> None:
    """The default audience."""


@dataclass(frozen=True, slots=True)
class Waited:
    """How a wait ended: ``done`` or at its limit, after ``seconds``."""

    done: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """Clock, sleep and audience of every wait.

    ``progress`` gets one line of text at once and then about every second; the caller decides how it looks.
    """

    progress: Callable[[str], None] = _nobody
    clock_s: Callable[[], float] = time.monotonic
    sleep_s: Callable[[float], None] = time.sleep

    def until(self, step: Callable[[float], str | None], *, limit_s: float, every_s: float) -> Waited:
        """Call ``step`` with the seconds waited so far until it returns None, at most for ``limit_s``.

        While ``step`` is not satisfied it returns the line that says what is waited for. It is called at least once,
        and once more at the limit.
        """
        began_s = self.clock_s()
        told_s = -math.inf
        last_look = False
        while True:
            waited_s = self.clock_s() - began_s
            line = step(waited_s)
            if line is None:
                return Waited(True, waited_s)
            left_s = limit_s - waited_s
            if last_look or left_s <= 0:
                return Waited(False, waited_s)
            if waited_s - told_s >= _TELL_EVERY_S:
                self.progress(line)
                told_s = waited_s
            last_look = left_s <= every_s  # decided here: a clock may come out a rounding error before the limit
            self.sleep_s(min(every_s, left_s))
