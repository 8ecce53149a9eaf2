"""Prompts that several claims ask with; short, since each claim asks them of every drafter."""

from collections.abc import Mapping

from pytest_specdec.records import Json

__all__ = ["CODE", "GREEDY", "GREEDY_LISTED", "LONG", "PROSE", "REFRAIN", "WIDE"]

CODE = (
    "# file\ndef average_quarry_weight(quarrys):\n    total = 0.0\n    seen = 0\n    for quarry in quarrys:\n"
    "        if quarry.weight is None:\n            continue\n        total += quarry.weight\n        seen += 1\n"
    "    if seen == 0:\n        return None\n    return round(total / seen, 3)\n\n# rename total to other_total\n"
)
PROSE = "Every summer the children of the town built a raft, and every summer it sank before"
LONG = CODE * 4
REFRAIN = "One for the harbor, two for the hill. " * 4
WIDE = "naïve 漢字 🙂🙃 naïve 漢字 🙂🙃 naïve 漢字 🙂🙃 "

# Greedy, cold, and with no end of its own, so that replies have the length that is asked for.
GREEDY: Mapping[str, Json] = {"temperature": 0.0, "cache_prompt": False, "ignore_eos": True, "n_predict": 48}
# Of the target alone: where its second choice is a near-tie, another reply may take that one.
GREEDY_LISTED: Mapping[str, Json] = {**GREEDY, "n_probs": 2}
