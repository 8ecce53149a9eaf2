"""The one device of a session: opened once, held while servers of ours run on it, and left as it was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from pytest_specdec.device.isolation import Release, ServerProcess, processes_of, wait_for_release
from pytest_specdec.device.lock import DeviceLocks
from pytest_specdec.device.orphans import end_orphans, find_orphans, run_environment
from pytest_specdec.device.reader import DeviceReader
from pytest_specdec.device.samples import DeviceIdentity
from pytest_specdec.device.waiting import Waiting
from pytest_specdec.errors import DeviceError
from pytest_specdec.server.process import LaunchedServer, LiveServer

__all__ = ["OwnDevice", "Tenancy", "processes_of_server"]


@dataclass
class Tenancy:
    """One server's stay on the device; ``watch`` says which processes must be gone at its end."""

    before_mib: float | None
    processes: tuple[ServerProcess, ...] = ()

    def watch(self, server: LiveServer) -> None:
        """``server`` is the one."""
        self.processes = processes_of_server(server)


@dataclass
class OwnDevice:
    """``release_timeout_s`` bounds the wait for a stopped server's memory. ``stack`` is let go with the device."""

    reader: DeviceReader
    locks: DeviceLocks
    run_id: str
    waiting: Waiting
    release_timeout_s: float
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._refused: DeviceError | None = None  # nobody waits for an hour twice
        self._unreleased: Tenancy | None = None
        self._depth = 0
        self._identity = self.reader.identity

    @property
    def identity(self) -> DeviceIdentity:
        """Which device."""
        return self._identity

    @property
    def environment(self) -> Mapping[str, str]:
        """What a server must see: this device and no other, and whose it is."""
        return {**self._identity.environment, **run_environment(self.run_id)}

    @contextmanager
    def held(self) -> Iterator[None]:
        """The device is ours while this is entered; what an earlier run of ours has left there is ended first.

        Raises DeviceError when the lock cannot be had, at once where it could not before.
        """
        if self._refused is not None:
            raise self._refused
        with ExitStack() as stack:
            try:
                stack.enter_context(self.locks.hold(self._identity.key))
            except DeviceError as error:
                self._refused = error
                raise
            if self._depth == 0:
                end_orphans(find_orphans())
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @contextmanager
    def hosting(self) -> Iterator[Tenancy]:
        """A server runs while this is entered. On a GPU it holds the device and waits for the memory at the end.

        Raises DeviceError where a stopped server does not leave, and again for the next one until it has.
        """
        if not self._identity.is_gpu:
            yield Tenancy(None)
            return
        with self.held():
            if self._unreleased is not None:
                self._leave(self._unreleased, limit_s=0.0)
            tenancy = Tenancy(self.reader.sample(with_processes=False).memory_used_mib)
            try:
                yield tenancy
            except BaseException:
                with suppress(DeviceError):  # what went wrong first is told
                    self._release(tenancy, self.release_timeout_s)
                raise
            self._leave(tenancy, self.release_timeout_s)

    def close(self) -> None:
        """Let the device go."""
        self.stack.close()
        self.reader.close()

    def _leave(self, tenancy: Tenancy, limit_s: float) -> None:
        self._unreleased = tenancy
        self._release(tenancy, limit_s).check()
        self._unreleased = None

    def _release(self, tenancy: Tenancy, limit_s: float) -> Release:
        return wait_for_release(
            self.reader, tenancy.processes, tenancy.before_mib, limit_s=limit_s, waiting=self.waiting
        )


def processes_of_server(server: LiveServer) -> tuple[ServerProcess, ...]:
    """Those of a server that we started; empty for one that somebody else runs."""
    return processes_of(server.pid) if isinstance(server, LaunchedServer) else ()
