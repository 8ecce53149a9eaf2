"""Which device a session takes: the one asked for, or what its build can use; under xdist one for each worker."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pytest_specdec.device.lock import DeviceLocks
from pytest_specdec.device.reader import DeviceReader, NoNvidia, list_devices, open_device
from pytest_specdec.device.waiting import Waiting
from pytest_specdec.errors import DeviceError
from pytest_specdec.measure.own_device import OwnDevice
from pytest_specdec.records import Settings
from pytest_specdec.server.build import Build

__all__ = ["Crew", "choose", "take"]

_LIST_FLAG = "--list-devices"
_LIST_TIMEOUT_S = 60.0
_HEADING = "available devices"


@dataclass(frozen=True, slots=True)
class Crew:
    """How many workers judge side by side, and whether any of them measures speed."""

    workers: int = 1
    measures_speed: bool = False


def take(
    settings: Settings, build: Build | None, crew: Crew, run_id: str, release_timeout_s: float,
    waits: Callable[[str], None],
) -> OwnDevice:  # fmt: skip
    """The device of this session, opened and not yet held. Raises DeviceError as ``choose`` does."""
    waiting = Waiting(progress=waits)
    locks = DeviceLocks(settings.lock_dir, run_id=run_id, timeout_s=settings.lock_timeout_s, waiting=waiting)
    stack = ExitStack()
    reader = choose(settings.device, build, crew, locks, stack)
    return OwnDevice(reader, locks, run_id, waiting, release_timeout_s, stack)


def choose(wanted: str | None, build: Build | None, crew: Crew, locks: DeviceLocks, stack: ExitStack) -> DeviceReader:
    """The opened device; ``stack`` keeps the lock by which a worker got it.

    ``build`` is None where servers are attached: then nobody can ask what it uses. Raises DeviceError when the device
    is not there, cannot be read, or is one of fewer than there are workers.
    """
    reader = open_device(wanted) if wanted is not None else _usable_by(build)
    if crew.workers == 1:
        return reader
    is_gpu = reader.identity.is_gpu
    keys = [reader.identity.key] if wanted is not None or not is_gpu else [each.key for each in list_devices()]
    if crew.workers > len(keys) and (is_gpu or crew.measures_speed):
        reader.close()
        raise _crowded(crew, keys)
    if not is_gpu or wanted is not None:
        return reader
    reader.close()
    return open_device(stack.enter_context(locks.hold_any(keys)))


def _usable_by(build: Build | None) -> DeviceReader:
    if build is not None and build.identity.source == "embedded":
        return NoNvidia()  # it has no GPU code, so no driver needs to be asked
    try:
        reader = open_device()
    except DeviceError:
        if build is not None and _computes_on_cpu(build):
            return NoNvidia()
        raise
    if not reader.identity.is_gpu or build is None or not _computes_on_cpu(build):
        return reader
    reader.close()
    return NoNvidia()


def _computes_on_cpu(build: Build) -> bool:
    """Whether it says that it has no device; one that does not answer may have some."""
    if _LIST_FLAG not in build.capabilities.flags:
        return False
    try:
        done = subprocess.run(
            [*build.command, _LIST_FLAG], capture_output=True, text=True, errors="replace", timeout=_LIST_TIMEOUT_S,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and _lists_none(done.stdout.splitlines())


def _lists_none(lines: Sequence[str]) -> bool:
    """Nothing indented under ``Available devices:`` but, in some builds, a word that there is nothing."""
    headings = [number for number, line in enumerate(lines) if line.strip().lower().startswith(_HEADING)]
    if not headings:
        return False
    named = [line for line in lines[headings[0] + 1 :] if line[:1].isspace() and ":" in line]
    return not named


def _crowded(crew: Crew, keys: Sequence[str]) -> DeviceError:
    there = f"there is one device ({keys[0]})" if len(keys) == 1 else f"there are {len(keys)} devices"
    return DeviceError(
        f"giving each of {crew.workers} workers a device of its own",
        f"{there}, and servers side by side on one would spoil each other's figures",
        f"use -n {len(keys)}, or on a CPU leave the speed claims out with -m 'not speed'",
    )
