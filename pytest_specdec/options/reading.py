"""What was given for the options, under which of their names, to the ``Settings`` of a run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.options import values
from pytest_specdec.options.table import OPTIONS, Option

if TYPE_CHECKING:
    from pytest_specdec.records import Settings

__all__ = ["any_given", "in_ini", "settings_of"]


@dataclass(frozen=True)
class _Given:
    """The texts that were given for one option, and by which of its names."""

    option: Option
    texts: list[str] = field(default_factory=list)
    origin: str = ""


def any_given(config: pytest.Config) -> bool:
    """Whether anything was set anywhere: without that there is nothing to check, and start-up stays light."""
    return any(_given(option, config).texts for option in OPTIONS)


def settings_of(config: pytest.Config) -> Settings:
    """Read, check and freeze all options.

    Raises pytest.UsageError that names the option, where it was set, the value and the valid ones, or says why two do
    not go together.
    """
    from pytest_specdec.records import Effort, Inconclusive, Settings, UpdateBaseline

    found: dict[str, Any] = {}
    for option in OPTIONS:
        given = _given(option, config)
        if given.texts:
            found[option.dest] = _parsed(given)
    if "resume" in found and "run_dir" in found:
        raise pytest.UsageError(
            f"--specdec-resume={found['resume']} and --specdec-run-dir={found['run_dir']}: a run that goes on keeps "
            "its evidence where it began; leave one of the two out"
        )
    if "update_baseline" in found:
        found["update_baseline"] = UpdateBaseline(found["update_baseline"])
    if "inconclusive" in found:
        found["inconclusive"] = Inconclusive(found["inconclusive"])
    if "property_effort" in found:
        found["property_effort"] = Effort(found["property_effort"])
    settings = Settings(**found)
    _refuse_to_record_a_trial(settings)
    return settings


def _refuse_to_record_a_trial(settings: Settings) -> None:
    """A record stands under its arm's name and flags, and a trial's measurement is not theirs."""
    from pytest_specdec.errors import BaselineError
    from pytest_specdec.records import UpdateBaseline

    recording = "--specdec-calibrate" if settings.calibrate else "--specdec-update-baseline"
    if settings.arm_args and (settings.calibrate or settings.update_baseline is not UpdateBaseline.OFF):
        refused = BaselineError(
            f"recording ({recording}) with --specdec-arm-args={shlex.quote(shlex.join(settings.arm_args))}",
            "they are for trying a change: the record would stand under arms that do not have these flags",
            "leave one of the two out, or put the flags into the arms of a profile of your own and record that",
        )
        raise pytest.UsageError(str(refused))


def _given(option: Option, config: pytest.Config) -> _Given:
    on_command_line = config.getoption("specdec_" + option.dest)
    if on_command_line is not None:
        return _Given(option, _as_list(on_command_line), option.flag)
    if os.environ.get(option.env):
        text = os.environ[option.env]
        return _Given(option, text.split() if option.repeatable else [text], f"environment variable {option.env}")
    texts = in_ini(option, config)
    return _Given(option, texts, f"{option.ini} in {config.inipath}") if texts else _Given(option)


def in_ini(option: Option, config: pytest.Config) -> list[str]:
    """What the ini file gives for ``option``; paths as pytest reads its own there, from the file's own folder."""
    texts = _as_list(config.getini(option.ini) or [])
    if option.parse is values.path and config.inipath is not None:
        return [str(config.inipath.parent / Path(text).expanduser()) for text in texts]
    return texts


def _as_list(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _parsed(given: _Given) -> Any:
    # Elsewhere an empty text is none: there it says what a command line says by leaving the option out.
    if given.origin == given.option.flag and not all(text.strip() for text in given.texts):
        raise pytest.UsageError(f"{given.origin}= is empty; was a variable not set? Give a value or leave it out")
    try:
        parsed = [given.option.parse(text) for text in given.texts]
    except values.BadValueError as error:
        wanted = f"{given.origin}: {' '.join(given.texts)!r} is not valid; it takes {error}"
        raise pytest.UsageError(wanted) from None
    return tuple(parsed) if given.option.repeatable else parsed[0]
