"""The selection markers that the declarations of claims add. Apart, because every pytest run loads this."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["FAMILIES", "GROUP", "KINDS", "STUDY", "without_group"]

FAMILIES: Mapping[str, str] = {
    "dflash2": "claims that involve a DFlash 2 drafter",
    "dflash1": "claims that involve a DFlash 1 drafter",
    "mtp": "claims that involve multi-token prediction",
    "ngram": "claims that involve a lookup drafter",
    "draft": "claims that involve a plain draft model",
}
KINDS: Mapping[str, str] = {
    "exact": "claims about counts: widths, counters, tokens per cycle; no timing",
    "lossless": "claims that drafting does not change the output",
    "speed": "claims about time; measured alone, under the device lock",
    "memory": "claims about memory",
}
STUDY = "the long replays of the study, without a family marker, so that -m dflash2 stays within its budget"

GROUP = "specdec-"  # what the groups of xdist's loadgroup scheduling are called that we make


def without_group(nodeid: str) -> str:
    """A test as it is named without xdist, which writes the group behind it."""
    return re.sub(rf"@{GROUP}[\w.-]+$", "", nodeid)
