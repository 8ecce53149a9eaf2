"""From a workload's name and its sizes in the profile to a frozen ``Workload``."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_specdec.errors import ProfileError
from pytest_specdec.records import Json, Profile, Prompt, Workload
from pytest_specdec.workloads.filler import filler, shuffled
from pytest_specdec.workloads.sources import packaged, prompts_of

__all__ = ["load"]

# Greedy, and a cold prompt each time: what is measured is decoding, not the sampler and not the prompt cache.
_GREEDY: Mapping[str, Json] = {"temperature": 0.0, "cache_prompt": False, "return_tokens": True}
# The model's and the server's own sampling. The seed of the profile's flags would make every conversation the same.
_DRAWN: Mapping[str, Json] = {"seed": -1, "cache_prompt": False, "return_tokens": True}


def load(profile: Profile, name: str) -> Workload:
    """The workload ``name`` at the size that ``profile`` gives it.

    Raises ProfileError when the profile has no such workload, or its prompts cannot be had.
    """
    sizes = _sizes(profile, name)
    prompts = _deepened(prompts_of(name, sizes, profile.origin), sizes.get("depth_chars", 0), sizes.get("filler"))
    prompts = _formatted(prompts, sizes.get("format") or profile.prompt_format)
    prompts = _repeated(prompts, sizes.get("times", 1))
    request = _request(sizes)
    return Workload(
        name=name,
        prompts=prompts,
        request=request,
        sha256=_hash(prompts, request),
        forced_tokens=sizes["n_predict"] if sizes.get("forced") else None,
        warm=sizes.get("warm", False),
        conversation=sizes.get("conversation", False),
        turn_end=sizes.get("turn_end", ""),
        sampled=sizes.get("sampled", False),
        block_prompts=sizes.get("block_prompts"),
        sigma=sizes.get("sigma"),
        intraclass=sizes.get("intraclass"),
    )


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


def _request(sizes: Mapping[str, Any]) -> dict[str, Json]:
    request = dict(_DRAWN if sizes.get("sampled") else _GREEDY)
    if "n_predict" in sizes:
        request["n_predict"] = sizes["n_predict"]
    if sizes.get("forced"):
        request["ignore_eos"] = True
    if sizes.get("warm") or sizes.get("conversation"):
        request["cache_prompt"] = True
    return request


def _deepened(prompts: tuple[Prompt, ...], characters: int, data: str | None) -> tuple[Prompt, ...]:
    """Each prompt behind other text of its own, so that no two share a beginning that a cache could keep.

    The text is code that is made up, or the prompts of other ``data``, which a small model may know better.
    """
    if not characters:
        return prompts
    texts = [prompt.text for prompt in packaged(data)] if data else []
    return tuple(
        replace(
            prompt,
            text=(shuffled(texts, characters, prompt.id) if texts else filler(characters, prompt.id)) + prompt.text,
        )
        for prompt in prompts
    )


def _formatted(prompts: tuple[Prompt, ...], form: str) -> tuple[Prompt, ...]:
    return tuple(replace(prompt, text=form.replace("{text}", prompt.text)) for prompt in prompts)


def _repeated(prompts: tuple[Prompt, ...], times: int) -> tuple[Prompt, ...]:
    """Each prompt ``times`` times in a row; from the second on the id says which time it is."""
    return tuple(
        prompt if time == 1 else replace(prompt, id=f"{prompt.id}#{time}")
        for prompt in prompts
        for time in range(1, times + 1)
    )


def _hash(prompts: tuple[Prompt, ...], request: Mapping[str, Json]) -> str:
    asked = [[prompt.id, prompt.text, *([dict(prompt.request)] if prompt.request else [])] for prompt in prompts]
    content = [asked, dict(sorted(request.items()))]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
