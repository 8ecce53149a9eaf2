"""What evidence was measured under, and in what two runs differ: what was measured under other conditions is none."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_specdec.measure.ledger import plain
from pytest_specdec.measure.servers import LaunchedServers, Servers, model_reference
from pytest_specdec.records import Claim, Json, Mode, Profile
from pytest_specdec.server.contents import contents_of

if TYPE_CHECKING:
    from pytest_specdec.session import Run

__all__ = ["conditions_of", "differences", "joined"]

_BASE = "base build"
# From how many words of a path on both runs must have it to differ in it: of an arm that one of them does not know, or
# of a base build that it has not, it has no evidence.
_BOTH_MUST_HAVE = {
    (_BASE,): 1,
    ("model",): 2,
    ("workload",): 2,
    ("profile", "arms"): 3,
    ("profile", "parts"): 3,
    ("profile", "workloads"): 3,
}
_ONLY_DECIDES = ("sigma", "intraclass")
_SHA256_CHARACTERS = 64
_SHOWN_OF_HASH = 12

_Flat = Mapping[tuple[str, ...], Json]


def conditions_of(run: Run, claims: Iterable[Claim], machine: str) -> Mapping[str, Json]:
    """Of this run with these claims. What only decides (margin, alpha, budget, …) is left out."""
    judged = [claim for claim in claims if run.unavailable(claim) is None]
    conditions: Mapping[str, Json] = plain({
        "build": _build(run.servers),
        **({_BASE: _build(run.base)} if run.base else {}),
        "device": run.device,
        "machine": machine,
        "--specdec-launcher": shlex.join(run.settings.launcher),
        "--specdec-arm-args": shlex.join(run.settings.arm_args),
        "model": _models(run, judged),
        "workload": {name: run.workload(name).sha256 for claim in judged for name in claim.on},
        "profile": _profile(run.profile),
    })  # fmt: skip
    return conditions


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """A line for each condition that is another one now; nothing where evidence of then is evidence now."""
    before, after = _flat(then), _flat(now)
    for path in dict.fromkeys((*before, *after)):
        if before.get(path) != after.get(path) and not _is_known_to_one(path, before, after):
            yield f"{' '.join(path)}: {_shown(before.get(path))} then, {_shown(after.get(path))} now"


def joined(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What was, and what is new beside it: for the evidence that is measured from now on."""
    new = {name: value for name, value in now.items() if name not in then}
    both = {
        name: joined(value, now[name]) if isinstance(value, Mapping) and isinstance(now.get(name), Mapping) else value
        for name, value in then.items()
    }
    return {**both, **new}


def _build(servers: Servers) -> Mapping[str, str]:
    """Of an attached server there is nothing but its word."""
    contents = contents_of(servers.build) if isinstance(servers, LaunchedServers) else {}
    return {"version": servers.identity.version, **contents}


def _models(run: Run, claims: Iterable[Claim]) -> Mapping[str, str]:
    """The hash of each file, or the reference where the server finds it; speed panels may have another of that name."""
    found: dict[str, str] = {}
    for claim in claims:
        for arm in (run.arm(key.arm) for key in claim.cells):
            for name in filter(None, (arm.target, arm.drafter)):
                apart = claim.mode is Mode.SPEED and name in run.profile.speed.models
                label, mode = (f"{name} (speed)", Mode.SPEED) if apart else (name, Mode.EXACT)
                found[label] = run.model_sha256(name, mode) or model_reference(run.profile, name, mode)
    return found


def _profile(profile: Profile) -> Mapping[str, object]:
    """What of it reaches a server or a request. Models are known by their files, wherever they lie."""
    tables = profile.workloads.items()
    return {
        "name": profile.name,
        "server_flags": profile.server_flags,
        "exact_flags": profile.exact_flags,
        "exact_drafted_flags": profile.exact_drafted_flags,
        "speed_flags": profile.speed_flags,
        "speed_drafted_flags": profile.speed_drafted_flags,
        "prompt_format": profile.prompt_format,
        "arms": profile.arms,
        "parts": profile.parts,
        "workloads": {name: {k: v for k, v in table.items() if k not in _ONLY_DECIDES} for name, table in tables},
        "speed": {"block_prompts": profile.speed.block_prompts, "warm_up_tokens": profile.speed.warm_up_tokens},
        "thermal": profile.thermal,
    }


def _flat(value: Json, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Json]:
    """Each value by the names that lead to it."""
    if not isinstance(value, Mapping):
        return {path: value}
    return {way: leaf for name, item in value.items() for way, leaf in _flat(item, (*path, name)).items()}


def _is_known_to_one(path: tuple[str, ...], before: _Flat, after: _Flat) -> bool:
    for prefix, words in _BOTH_MUST_HAVE.items():
        if path[: len(prefix)] == prefix:
            return not all(any(other[:words] == path[:words] for other in known) for known in (before, after))
    return False


def _shown(value: Json) -> str:
    if value is None or value == "":
        return "nothing"
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    is_hash = len(value) == _SHA256_CHARACTERS and set(value) <= set("0123456789abcdef")
    return value[:_SHOWN_OF_HASH] if is_hash else value
