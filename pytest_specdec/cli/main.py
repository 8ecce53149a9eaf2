"""Reads the command line, runs one command, and shows an error on one screen."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from pytest_specdec import __version__
from pytest_specdec.cli import baseline, bisect, claims, doctor, history, merge, models, report
from pytest_specdec.cli.shared import take_settings
from pytest_specdec.errors import SpecdecError

__all__ = ["main"]

_COMMANDS = (doctor, claims, baseline, report, history, merge, bisect, models)
_INTERRUPTED = 130
_ERROR = 2


class _Parser(argparse.ArgumentParser):
    """A parser whose exit status for a wrong command line can be another than 2."""

    error_status = _ERROR

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(self.error_status, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of one command.

    2 for a wrong command line or an error that has a remedy, 130 after Ctrl-C; bisect keeps to statuses that
    ``git bisect run`` understands.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    if words[:1] == ["bisect"]:
        parser.error_status = bisect.USAGE
    parsed = parser.parse_args(words)
    try:
        take_settings(parsed)
        status: int = parsed.run(parsed)
    except SpecdecError as error:
        print(error, file=sys.stderr)
        return _ERROR
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains again at its end
        return 0
    return status


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m pytest_specdec",
        description="Claims about speculative decoding in llama.cpp: what surrounds `pytest -m dflash2`.",
    )
    parser.add_argument("--version", action="version", version=f"pytest-specdec {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)
    for command in _COMMANDS:
        command.add(commands)
    return parser
