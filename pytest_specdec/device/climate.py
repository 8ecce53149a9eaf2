"""Heat and clocks: wait until the device is cool, and see whether two stretches ran at the same clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.device.waiting import Waiting

if TYPE_CHECKING:
    from pytest_specdec.device.reader import DeviceReader
    from pytest_specdec.device.samples import Sample
    from pytest_specdec.device.summary import Summary

__all__ = ["ClockDrift", "Cooldown", "clock_drift", "cool_down", "pause_after_throttle"]

_POLL_S = 1.0
# Boost clocks move in steps of 15 MHz, 0.6 % of 2.4 GHz; a decode step that is bound by compute follows them.
CLOCK_TOLERANCE = 0.03


@dataclass(frozen=True, slots=True)
class Cooldown:
    """How a wait for a cooler device ended. ``temperature_c`` is None for a device that does not tell.

    Above ``target_c``, or with ``slowdowns``, figures of speed that start now are void.
    """

    target_c: float
    temperature_c: int | None
    slowdowns: tuple[str, ...]
    waited_s: float

    @property
    def still_hot(self) -> str | None:
        """What is wrong; None when the device is cool, or does not tell."""
        return _still_hot(self.temperature_c, self.slowdowns, self.target_c)


@dataclass(frozen=True, slots=True)
class ClockDrift:
    """The clocks of a stretch over those of another, and whether the power limit explains the difference.

    The ratios are None where the device does not tell its clocks.
    """

    sm_ratio: float | None
    memory_ratio: float | None
    power_capped: bool
    tolerance: float

    @property
    def unexplained(self) -> str | None:
        """The difference that makes the pair's figures of speed void; None when there is none.

        A lower SM clock at the power limit is no drift: an arm that works harder draws more and is clocked lower,
        each time, and that is part of its speed. The memory clock has no such excuse.
        """
        sm_drifts = not self.power_capped and _differs(self.sm_ratio, self.tolerance)
        if not sm_drifts and not _differs(self.memory_ratio, self.tolerance):
            return None
        return f"SM clock {_percent(self.sm_ratio)}, memory clock {_percent(self.memory_ratio)} against its pair"


def cool_down(reader: DeviceReader, target_c: float, *, limit_s: float, waiting: Waiting | None = None) -> Cooldown:
    """Wait until the device is at ``target_c`` or below and nothing slows it, at most for ``limit_s``.

    At the limit it returns all the same, still hot. Raises DeviceError.
    """
    return pause_after_throttle(reader, target_c, pause_s=0.0, limit_s=limit_s, waiting=waiting)


def pause_after_throttle(
    reader: DeviceReader, target_c: float, *, pause_s: float, limit_s: float, waiting: Waiting | None = None
) -> Cooldown:
    """As ``cool_down``, but wait ``pause_s`` in any case: a card that was throttled is hotter inside than it says."""
    name = reader.identity.name
    last: list[Sample] = []

    def step(waited_s: float) -> str | None:
        last[:] = [reader.sample(with_processes=False)]
        hot = _still_hot(last[0].temperature_c, last[0].slowdowns, target_c)
        if hot is None and waited_s >= pause_s:
            return None
        return f"cooling {name}: {hot or 'a pause after throttling'}, {_left(waited_s, pause_s, limit_s, hot)}"

    waited = (waiting or Waiting()).until(step, limit_s=max(limit_s, pause_s), every_s=_POLL_S)
    return Cooldown(target_c, last[0].temperature_c, last[0].slowdowns, waited.seconds)


def clock_drift(reference: Summary, candidate: Summary, tolerance: float = CLOCK_TOLERANCE) -> ClockDrift:
    """Compare the clocks of two stretches, candidate over reference, for a difference of more than ``tolerance``."""
    capped = bool(reference.power_capped_share) or bool(candidate.power_capped_share)
    return ClockDrift(
        sm_ratio=_ratio(reference.sm_clock_mhz, candidate.sm_clock_mhz),
        memory_ratio=_ratio(reference.memory_clock_mhz, candidate.memory_clock_mhz),
        power_capped=capped,
        tolerance=tolerance,
    )


def _still_hot(temperature_c: int | None, slowdowns: tuple[str, ...], target_c: float) -> str | None:
    if temperature_c is not None and temperature_c > target_c:
        return f"{temperature_c} °C, wanted {target_c:.0f} °C"
    return f"still slowed ({', '.join(slowdowns)})" if slowdowns else None


def _left(waited_s: float, pause_s: float, limit_s: float, hot: str | None) -> str:
    if hot is None:
        return f"{pause_s - waited_s:.0f} s left"
    return f"{max(limit_s, pause_s) - waited_s:.0f} s left before its figures of speed are void"


def _ratio(reference_mhz: float | None, candidate_mhz: float | None) -> float | None:
    return candidate_mhz / reference_mhz if reference_mhz and candidate_mhz is not None else None


def _differs(ratio: float | None, tolerance: float) -> bool:
    return ratio is not None and abs(ratio - 1.0) > tolerance


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{100 * (ratio - 1):+.1f} %"
