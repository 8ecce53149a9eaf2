"""What the fault tests run in a process of its own, where the real pynvml loads the scripted library.

``python nvml_scenarios.py SCENARIO ARGUMENT...`` prints one JSON object; a DeviceError is printed as its parts.
Times are the script's: waiting moves the scripted clock instead of passing time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.device.climate import clock_drift, cool_down, pause_after_throttle
from pytest_specdec.device.isolation import processes_of, wait_for_release, wait_until_alone
from pytest_specdec.device.reader import list_devices, open_device
from pytest_specdec.device.telemetry import Telemetry
from pytest_specdec.device.waiting import Waiting
from pytest_specdec.errors import DeviceError
from pytest_specdec.measure.guards import device_shared, hot_start, throttled

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.device.summary import Summary
    from pytest_specdec.records import Void

Result = dict[str, Any]


class ScriptedClock:
    """The clock that the scripted library reads."""

    def __init__(self) -> None:
        self._path = Path(os.environ["SCRIPTED_NVML_CLOCK"])
        self._seconds = 0.0
        self.lines: list[str] = []
        self.advance(0.0)

    def advance(self, seconds: float) -> None:
        """Let time pass in the script."""
        self._seconds += seconds
        self._path.write_text(repr(self._seconds))

    def waiting(self) -> Waiting:
        """A way to wait that takes no time."""
        return Waiting(progress=self.lines.append, clock_s=lambda: self._seconds, sleep_s=self.advance)


def _void(void: Void | None) -> Result | None:
    if void is None:
        return None
    return {"reason": void.reason, "figures": sorted(void.figures), "detail": void.detail}


def read(selector: str) -> Result:
    """One reading of a device; ``-`` selects none."""
    reader = open_device(None if selector == "-" else selector)
    sample = asdict(reader.sample())
    reader.close()
    return {"kind": type(reader).__name__, "identity": asdict(reader.identity), "sample": sample}


def list_all() -> Result:
    """Every device."""
    return {"keys": [identity.key for identity in list_devices()]}


def cooldown(target_c: str, limit_s: str, pause_s: str) -> Result:
    """Wait for a cooler device."""
    clock = ScriptedClock()
    reader = open_device()
    if float(pause_s):
        cooled = pause_after_throttle(
            reader, float(target_c), pause_s=float(pause_s), limit_s=float(limit_s), waiting=clock.waiting()
        )
    else:
        cooled = cool_down(reader, float(target_c), limit_s=float(limit_s), waiting=clock.waiting())
    return {
        "void": _void(hot_start(cooled.temperature_c, cooled.target_c) or throttled(cooled.slowdowns)),
        "still_hot": cooled.still_hot,
        "waited_s": cooled.waited_s,
        "temperature_c": cooled.temperature_c,
        "lines": clock.lines,
    }


def stretches(path: str, seconds: str, server_pid: str) -> Result:
    """Two generations, one before and one after ``seconds`` of the script, and the drift of their clocks."""
    clock = ScriptedClock()
    # So slow a background thread that only the readings of this function are there.
    with Telemetry(open_device(), Path(path), rate_hz=1e-3) as telemetry:
        telemetry.watch([int(server_pid)])
        first = _stretch(telemetry)
        clock.advance(float(seconds))
        second = _stretch(telemetry)
    return {
        "voids": [_void(throttled(first.slowdowns)), _void(throttled(second.slowdowns))],
        "drift": clock_drift(first, second).unexplained,
        "summaries": [first.to_json(), second.to_json()],
    }


def _stretch(telemetry: Telemetry) -> Summary:
    started_ns = time.perf_counter_ns()
    for _ in range(3):
        telemetry.sample_now(with_processes=True)
    return telemetry.summary(started_ns, time.perf_counter_ns())


def lost_in_the_background(path: str) -> Result:
    """Sample in the background until that fails, then ask for a summary."""
    telemetry = Telemetry(open_device(), Path(path), rate_hz=200.0)
    telemetry.start()
    started_ns = time.perf_counter_ns()
    deadline_s = time.monotonic() + 30.0
    try:
        while time.monotonic() < deadline_s:
            telemetry.check()
            time.sleep(0.01)
        return {"still": "sampling"}
    except DeviceError:
        telemetry.summary(started_ns, time.perf_counter_ns())
        return {"summary": "made of an unread device"}
    finally:
        telemetry.stop()


def alone(limit_s: str, *ours: str) -> Result:
    """Wait until only the processes ``ours`` are on the device."""
    clock = ScriptedClock()
    sharing = wait_until_alone(
        open_device(), [int(pid) for pid in ours], limit_s=float(limit_s), waiting=clock.waiting()
    )
    void = _void(device_shared(sharing.names))
    return {"void": void, "known": sharing.known, "waited_s": sharing.waited_s, "lines": clock.lines}


def release(before_mib: str, limit_s: str, pid: str) -> Result:
    """Wait until the server ``pid`` and its memory are gone; ``-`` is one that has ended already."""
    clock = ScriptedClock()
    server = () if pid == "-" else processes_of(int(pid))
    released = wait_for_release(
        open_device(), server, float(before_mib), limit_s=float(limit_s), waiting=clock.waiting()
    )
    released.check()
    return {"waited_s": released.waited_s, "lines": clock.lines}


SCENARIOS: dict[str, Callable[..., Result]] = {
    function.__name__: function
    for function in (read, list_all, cooldown, stretches, lost_in_the_background, alone, release)
}


def main(name: str, *arguments: str) -> None:
    """Run one scenario and print what came of it."""
    try:
        result = SCENARIOS[name](*arguments)
    except DeviceError as error:
        result = {"tried": error.tried, "why": error.why, "remedy": error.remedy}
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
