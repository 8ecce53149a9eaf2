"""Environment variables that look like settings of ours and are none."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from pytest_specdec.options.table import OPTIONS

__all__ = ["misspelled_lines"]

_PREFIX = "SPECDEC_"

# What our own processes tell one another, and what the project's tests and its sandbox read.
_NO_SETTINGS = (
    "SPECDEC_LISTING", "SPECDEC_NATIVE_*", "SPECDEC_REAL_DECISIONS*", "SPECDEC_RUN_ID", "SPECDEC_SANDBOX_*",
    "SPECDEC_SETTINGS",
)  # fmt: skip


def misspelled_lines(environment: Mapping[str, str]) -> list[str]:
    """A line for each variable that nobody reads: it was meant to say something."""
    import difflib  # every pytest run loads this file

    known = {option.env.removeprefix(_PREFIX): option.env for option in OPTIONS}
    lines = []
    for name in sorted(environment):
        if (
            not name.startswith(_PREFIX)
            or name in known.values()
            or any(fnmatchcase(name, other) for other in _NO_SETTINGS)
        ):
            continue
        near = difflib.get_close_matches(name.removeprefix(_PREFIX), known, n=1)
        hint = f"did you mean {known[near[0]]}?" if near else "see `pytest --help` for those that are"
        lines.append(f"specdec: the environment variable {name} is no setting and says nothing; {hint}")
    return lines
