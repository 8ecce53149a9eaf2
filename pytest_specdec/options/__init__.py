"""The options of a run, from one table."""

from __future__ import annotations

from pytest_specdec.options.lost import refuse_lost_configuration, where_claims_are
from pytest_specdec.options.misspelled import misspelled_lines
from pytest_specdec.options.reading import any_given, in_ini, settings_of
from pytest_specdec.options.table import OPTIONS, Option, add_to_parser, as_markdown

__all__ = [
    "OPTIONS",
    "Option",
    "add_to_parser",
    "any_given",
    "as_markdown",
    "in_ini",
    "misspelled_lines",
    "refuse_lost_configuration",
    "settings_of",
    "where_claims_are",
]
