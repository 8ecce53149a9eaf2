"""Command lines that miss what they aim at: paths that took the ini file away, and places without claims."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_specdec.options.table import OPTIONS
from pytest_specdec.places import configurations, packaged

__all__ = ["refuse_lost_configuration", "where_claims_are"]


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


def where_claims_are(config: pytest.Config) -> list[str]:
    """For somebody who asked for claims on the command line in a place that has none."""
    if all(config.getoption("specdec_" + option.dest) is None for option in OPTIONS):
        return []
    suites = packaged("suites")
    name = "--pyargs pytest_specdec.suites" if suites.parent.name == "pytest_specdec" else os.path.relpath(suites)
    return [f"specdec: no claim was found here; for those of the package add {name}"]


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
