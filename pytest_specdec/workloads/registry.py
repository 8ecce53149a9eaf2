"""From a workload's name and its sizes in the profile to a frozen ``Workload``."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from pytest_specdec.errors import ProfileError
from pytest_specdec.records import Json, Profile, Prompt, Workload

__all__ = ["load"]

# Greedy, and a cold prompt each time: what is measured is decoding, not the sampler and not the prompt cache.
_GREEDY: Mapping[str, Json] = {"temperature": 0.0, "cache_prompt": False, "return_tokens": True}


def load(profile: Profile, name: str) -> Workload:
    """The workload ``name`` at the size that ``profile`` gives it.

    Raises ProfileError when the profile has no such workload, or its prompt data does not exist.
    """
    sizes = _sizes(profile, name)
    prompts = _repeated(_prompts(sizes.get("data", name), sizes.get("prompts")), sizes.get("times", 1))
    request = {**_GREEDY, "n_predict": sizes["n_predict"]} if "n_predict" in sizes else dict(_GREEDY)
    return Workload(name=name, prompts=prompts, request=request, sha256=_hash(prompts, request))


def _sizes(profile: Profile, name: str) -> Mapping[str, Any]:
    if name not in profile.workloads:
        near = difflib.get_close_matches(name, profile.workloads, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(sorted(profile.workloads))}"
        raise ProfileError(
            f"loading the workload {name!r}",
            f"the profile {profile.name} has no such workload; {hint}",
            f"add [workloads.{name}] to the profile ({profile.origin})",
        )
    return profile.workloads[name]


def _prompts(data: str, limit: int | None) -> tuple[Prompt, ...]:
    resource = resources.files("pytest_specdec.workloads").joinpath("data", f"{data}.json")
    if not resource.is_file():
        raise ProfileError(f"reading the prompts {data!r}", "the package has no such prompt data", "correct its `data`")
    rows = json.loads(resource.read_text("utf-8"))["prompts"]
    return tuple(Prompt(id=row["id"], text=row["text"]) for row in rows[:limit])


def _repeated(prompts: tuple[Prompt, ...], times: int) -> tuple[Prompt, ...]:
    """Each prompt ``times`` times in a row; from the second on the id says which time it is."""
    return tuple(
        prompt if time == 1 else Prompt(f"{prompt.id}#{time}", prompt.text)
        for prompt in prompts
        for time in range(1, times + 1)
    )


def _hash(prompts: tuple[Prompt, ...], request: Mapping[str, Json]) -> str:
    content = [[[prompt.id, prompt.text] for prompt in prompts], dict(sorted(request.items()))]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
