"""Measures exact cells before the claims ask for them, on cores that would else be idle."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from pytest_specdec.measure.cells import Cells
from pytest_specdec.measure.failures import CellFailedError
from pytest_specdec.records import CellKey

__all__ = ["Ahead"]

_LOOK_S = 0.1


class Ahead:
    """Threads that take the cells of ``keys`` one after another, each on a server of its own.

    What they find, failures included, is kept by ``cells`` and told by the claim that asks for it. ``end_servers`` ends
    every server that runs, so that nobody waits for a reply that nobody wants any more.
    """

    def __init__(self, cells: Cells, keys: Iterable[CellKey], threads: int, end_servers: Callable[[], None]) -> None:
        self._cells = cells
        self._keys = deque(keys)
        self._end_servers = end_servers
        self._threads = [threading.Thread(target=self._work, name="ahead", daemon=True) for _ in range(threads)]
        self._changed = threading.Condition()
        self._begun = False
        self._stopped = False
        self._pauses = 0
        self._busy = 0

    def start(self) -> None:
        """Begin, if that has not happened yet."""
        if not self._begun and not self._stopped:
            self._begun = True
            for thread in self._threads:
                thread.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is measured ahead while this is entered, so that what is timed has the machine to itself."""
        with self.holding():
            with self._changed:
                while self._busy:
                    self._changed.wait(_LOOK_S)
            yield

    @contextmanager
    def holding(self) -> Iterator[None]:
        """No further cell is begun while this is entered; those under way go on."""
        with self._changed:
            self._pauses += 1
        try:
            yield
        finally:
            with self._changed:
                self._pauses -= 1
                self._changed.notify_all()

    def lend_a_hand(self) -> bool:
        """Measure one cell that nobody has begun, in the thread that asks; whether there was one."""
        key = self._next() if self._begun and not self._pauses else None
        if key is not None:
            self._measure(key)
        return key is not None

    def stop(self) -> None:
        """End what is under way; it leaves no trace but the replies that were whole."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._cells.abandon()
        while self._begun and any(thread.is_alive() for thread in self._threads):
            self._end_servers()  # again: one may have been on its way
            for thread in self._threads:
                thread.join(_LOOK_S)

    def _work(self) -> None:
        while (key := self._next()) is not None and self._measure(key):
            pass

    def _measure(self, key: CellKey) -> bool:
        """Whether it is worth going on."""
        try:
            self._cells.get(key)
        except CellFailedError:
            return True  # kept for the claims that need it
        except Exception:
            return False  # the claim that needs this cell runs into it again, and tells
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()
        return True

    def _next(self) -> CellKey | None:
        """The next cell that nobody has begun, counted as busy; None when there is none or it is over."""
        with self._changed:
            while self._pauses and not self._stopped:
                self._changed.wait()
            while self._keys and not self._stopped:
                key = self._keys.popleft()
                if not self._cells.is_begun(key):
                    self._busy += 1
                    return key
        return None
