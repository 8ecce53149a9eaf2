"""What is asked of a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_specdec.records.json import Json

__all__ = ["Prompt", "Workload"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a workload. ``group``: the part of the workload that it belongs to, empty where it has no parts."""

    id: str
    text: str
    group: str = ""
    request: Mapping[str, Json] = field(default_factory=dict)  # what it asks for beyond the workload's request


@dataclass(frozen=True, slots=True)
class Workload:
    """A named, ordered set of prompts with the parameters of their requests.

    ``forced_tokens``: the length of every reply where it is fixed. ``warm``: the prompt cache may answer.
    ``conversation``: each prompt is a turn that follows on what was said before, ``turn_end`` stands between a reply
    and the next turn. ``sampled``: replies are drawn as the server does by default; a conversation then follows on what
    the arm itself has said. ``block_prompts``: of a speed panel.
    ``sigma``: spread of a pair, natural-log units; ``intraclass``: correlation of the pairs of one block. None where
    the profile's count.
    """

    name: str
    prompts: tuple[Prompt, ...]
    request: Mapping[str, Json]
    sha256: str
    forced_tokens: int | None = None
    warm: bool = False
    conversation: bool = False
    turn_end: str = ""
    sampled: bool = False
    block_prompts: int | None = None
    sigma: float | None = None
    intraclass: float | None = None
