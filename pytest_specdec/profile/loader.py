"""TOML text to a frozen ``Profile``."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from pytest_specdec.errors import ProfileError
from pytest_specdec.profile.arms import compose, known, with_part
from pytest_specdec.records import Arm, Json, Part, Profile, SpeedPlan, Thermal
from pytest_specdec.schema import problems

__all__ = ["BUILTIN", "load"]

_OWN_FLAGS = " own flags"  # travels with the document; no key of TOML that a person writes
_SERVER_TABLES = ("flags", "exact", "exact_drafted", "speed", "speed_drafted")

BUILTIN = ("tiny", "qwen3.8-27b", "qwen3.6-27b")


def load(name_or_path: str) -> Profile:
    """The built-in profile of that name, or the one in that TOML file.

    Raises ProfileError when there is no such profile, it is not TOML, or it breaks the schema.
    """
    document = _document(name_or_path, seen=())
    own_flags = frozenset(document.pop(_OWN_FLAGS))
    wrong = problems(document, "pytest_specdec.profile", "schema.json")
    if wrong:
        raise ProfileError(
            f"reading the profile {name_or_path}", "\n".join(wrong), "correct the TOML; docs/profiles.md has every key"
        )
    profile = _profile(document, str(name_or_path))
    _check_names(profile)
    return replace(profile, own_flags=own_flags)


def _document(name_or_path: str, seen: tuple[str, ...]) -> dict[str, Any]:
    if name_or_path in seen:
        raise ProfileError(
            f"reading the profile {seen[0]}",
            f"it extends itself: {' → '.join((*seen, name_or_path))}",
            "cut the circle",
        )
    document = _parsed(name_or_path)
    own = [] if name_or_path in BUILTIN else sorted(_flags_set(document))
    parent = document.get("extends")
    if not isinstance(parent, str):
        return document | {_OWN_FLAGS: own}  # for the schema to refuse where it is something else
    del document["extends"]
    if parent not in BUILTIN:
        parent = os.path.normpath(Path(name_or_path).parent / parent)
    below = _document(parent, (*seen, name_or_path))
    return _overlaid(below, document) | {_OWN_FLAGS: [*below[_OWN_FLAGS], *own]}


def _flags_set(document: Mapping[str, Any]) -> Iterator[str]:
    """The flags that one file gives to servers, arms and parts; the schema has not looked at it yet."""
    tables = [_table(document, "server", name) for name in _SERVER_TABLES]
    for kind in ("arms", "parts"):
        tables += [_table(document, kind, name, "flags") for name in _table(document, kind)]
    for table in tables:
        yield from (name for name, value in _flags(table).items() if value is not False)


def _table(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    found: Any = document
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _parsed(name_or_path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(name_or_path))
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"reading the profile {name_or_path}", f"it is not TOML: {error}", "correct it") from None


def _text(name_or_path: str) -> str:
    if name_or_path in BUILTIN:
        folder = resources.files("pytest_specdec.profile").joinpath("builtin")
        return folder.joinpath(f"{name_or_path}.toml").read_text("utf-8")
    try:
        return Path(name_or_path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        near = difflib.get_close_matches(name_or_path, BUILTIN, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ProfileError(
            f"reading the profile {name_or_path}",
            f"it is neither a built-in profile nor a readable file ({error})",
            f"{hint}built in: {', '.join(BUILTIN)}; or give the path of a TOML file",
        ) from None


def _overlaid(parent: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    """``child`` over ``parent``, table by table."""
    merged = dict(parent)
    for key, value in child.items():
        below = merged.get(key)
        merged[key] = _overlaid(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def _profile(document: Mapping[str, Any], origin: str) -> Profile:
    server: Mapping[str, Any] = document["server"]
    parts = {name: _part(name, table) for name, table in document.get("parts", {}).items()}
    return Profile(
        name=document["name"],
        about=document["about"],
        origin=origin,
        models=document["models"],
        server_flags=_flags(server["flags"]),
        exact_flags=_flags(server.get("exact", {})),
        exact_drafted_flags=_flags(server.get("exact_drafted", {})),
        speed_flags=_flags(server.get("speed", {})),
        speed_drafted_flags=_flags(server.get("speed_drafted", {})),
        arms={name: _arm(name, table, parts, origin) for name, table in document["arms"].items()},
        parts=parts,
        judged_arms=tuple(document["judged_arms"]),
        workloads=document.get("workloads", {}),
        ready_timeout_s=float(server["ready_timeout_s"]),
        stall_timeout_s=float(server["stall_timeout_s"]),
        stop_timeout_s=float(server["stop_timeout_s"]),
        speed=SpeedPlan(**document.get("speed", {})),
        thermal=Thermal(**document.get("thermal", {})),
        prompt_format=document.get("prompt_format", "{text}"),
    )


def _check_names(profile: Profile) -> None:
    """Raises ProfileError where an arm needs a model, or the judged arms an arm, that is not there."""
    for arm in profile.arms.values():
        for model in (arm.target, arm.drafter):
            if model is not None and model not in profile.models:
                near = difflib.get_close_matches(model, profile.models, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(sorted(profile.models))}"
                raise ProfileError(
                    f"reading the arm {arm.name!r} of the profile {profile.name}",
                    f"there is no model {model!r}; {hint}",
                    f"add {model} to [models] in the profile ({profile.origin})",
                )
    for name in profile.judged_arms:
        compose(profile, name)


def _arm(name: str, table: Mapping[str, Any], parts: Mapping[str, Part], origin: str) -> Arm:
    arm = Arm(
        name=name,
        families=tuple(table.get("families", ())),
        spec_types=tuple(table.get("spec_types", ())),
        target=table.get("target", "target"),
        drafter=table.get("drafter"),
        n_max=table.get("n_max"),
        block_size=table.get("block_size"),
        flags=_flags(table.get("flags", {})),
    )
    for part_name in table.get("parts", ()):
        arm = with_part(arm, known(parts, part_name, "part", f"reading the arm {name!r}", origin))
    return arm


def _part(name: str, table: Mapping[str, Any]) -> Part:
    return Part(
        name=name,
        families=tuple(table.get("families", ())),
        spec_types=tuple(table.get("spec_types", ())),
        flags=_flags(table.get("flags", {})),
    )


def _flags(table: Mapping[str, Json]) -> dict[str, Json]:
    """``ctx-size = 4096`` in TOML is ``--ctx-size 4096`` on the command line."""
    return {"--" + name: value for name, value in table.items()}
