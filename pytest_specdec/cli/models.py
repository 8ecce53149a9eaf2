"""``models``: what the tiny family is, and its target made heavy enough for speed claims."""

from __future__ import annotations

import argparse
import sys

from pytest_specdec.cli.shared import Commands

__all__ = ["add"]

_MIB = 1024 * 1024


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("models", help="the tiny models that ship with the package")
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    card = actions.add_parser("card", help="what each model is, how it was made and what it does")
    card.set_defaults(run=_card)
    inflate = actions.add_parser("inflate", help="make the inflated target now, instead of on first use")
    inflate.set_defaults(run=_inflate)


def _card(_arguments: argparse.Namespace) -> int:
    from pytest_specdec.models.card import card_text

    print(card_text())
    return 0


def _inflate(_arguments: argparse.Namespace) -> int:
    from pytest_specdec.models.inflate import inflated_target

    print(inflated_target(progress=_progress if sys.stderr.isatty() else None))
    return 0


def _progress(done: int, total: int) -> None:
    end = "\n" if done >= total else ""
    print(f"\rinflating: {done / _MIB:.0f} of {total / _MIB:.0f} MiB", end=end, file=sys.stderr, flush=True)
