"""The text of an option to its value. Every function here raises BadValueError for a text that it does not take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_specdec.records import Budget

__all__ = [
    "BadValueError",
    "arm_url",
    "budget",
    "count",
    "device",
    "one_of",
    "path",
    "reason",
    "seconds",
    "seed",
    "share",
    "switch",
    "words",
]

_MOST_SHARE = 0.5
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


class BadValueError(ValueError):
    """A value that the option does not take; the message names the valid ones."""


def reason(value: str) -> str:
    """Some words."""
    if not value.strip():
        raise BadValueError("the reason in a few words")
    return value.strip()


def words(value: str) -> tuple[str, ...]:
    """Words as a shell would split them."""
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise BadValueError(f"a command line as a shell would read it ({error})") from None


def path(value: str) -> Path:
    """A path; ``~`` is the home directory."""
    return Path(value).expanduser()


def switch(value: str) -> bool:
    """True or false."""
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if value.lower() not in known:
        raise BadValueError("one of true, false")
    return known[value.lower()]


def one_of(*known: str) -> Callable[[str], str]:
    """A function that takes these words and no others."""

    def parse(value: str) -> str:
        if value not in known:
            raise BadValueError("one of " + ", ".join(known))
        return value

    return parse


def arm_url(value: str) -> tuple[str, str]:
    """``ARM=URL``."""
    arm, sign, url = value.partition("=")
    if not sign or not arm or not url.startswith(("http://", "https://")):
        raise BadValueError("ARM=URL, for example base=http://127.0.0.1:8080")
    return arm, url.rstrip("/")


def share(value: str) -> float:
    """Between 0 and a half, both excluded."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < _MOST_SHARE:
        raise BadValueError(f"a share between 0 and {_MOST_SHARE:g}, for example 0.05")
    return number


def seconds(value: str) -> float:
    """A time with a unit, in seconds."""
    match = re.fullmatch(r"(?P<number>\d+(\.\d+)?)(?P<unit>[smh]?)", value)
    if match is None:
        raise BadValueError("a time (90s, 10m, 1h; without a unit seconds)")
    return float(match["number"]) * _UNIT_S[match["unit"] or "s"]


def device(value: str) -> str:
    """What selects a device."""
    if value != "cpu" and not re.fullmatch(r"\d+|(GPU|MIG)-[\w/-]+", value):
        raise BadValueError("cpu, an index as `nvidia-smi -L` counts, or the UUID of a GPU or a MIG instance")
    return value


def count(value: str) -> int:
    """A whole number from 1 on."""
    if not value.isdigit() or int(value) < 1:
        raise BadValueError("a whole number from 1 on")
    return int(value)


def seed(value: str) -> int:
    """A whole number."""
    if not value.isdigit():
        raise BadValueError("a whole number")
    return int(value)


def budget(value: str) -> Budget:
    """``N pairs`` or a time with a unit."""
    from pytest_specdec.records import Budget
    from pytest_specdec.stats.rule import LEAST_PAIRS

    match = re.fullmatch(r"(?P<pairs>\d+) ?pairs|(?P<time>\d+(\.\d+)?)(?P<unit>[smh])", value)
    if match is None:
        raise BadValueError("a number of pairs per contrast (40 pairs) or the device time in all (90s, 10m, 1h)")
    if match["pairs"]:
        if int(match["pairs"]) < LEAST_PAIRS:
            raise BadValueError(f"at least {LEAST_PAIRS} pairs per contrast: fewer decide nothing")
        return Budget(pairs=int(match["pairs"]))
    if not float(match["time"]):
        raise BadValueError("a time above zero: without any, nothing is decided")
    return Budget(seconds=float(match["time"]) * _UNIT_S[match["unit"]])
