"""Arms compose: ``dflash2+k4v@5`` is the arm ``dflash2``, with the part ``k4v``, at a draft width of at most 5."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from pytest_specdec.errors import ProfileError
from pytest_specdec.records import Arm, Part, Profile

__all__ = ["compose", "known", "recorded_as", "with_part"]

_T = TypeVar("_T", Arm, Part)
_NAME = re.compile(r"(?P<base>[A-Za-z][\w.-]*)(?P<parts>(\+[\w.-]+)*)(@(?P<n_max>\d+))?")


def compose(profile: Profile, name: str) -> Arm:
    """The complete arm that ``name`` stands for in ``profile``.

    Raises ProfileError when the name is malformed, or the profile knows no such arm or part.
    """
    tried = f"composing the arm {name!r} of the profile {profile.name}"
    match = _NAME.fullmatch(name)
    if match is None:
        raise ProfileError(tried, "it is not of the form ARM[+PART…][@N]", "write it like dflash2+k4v@5")
    arm = known(profile.arms, match["base"], "arm", tried, profile.origin)
    for part_name in match["parts"].split("+")[1:]:
        arm = with_part(arm, known(profile.parts, part_name, "part", tried, profile.origin))
    if match["n_max"] is not None:
        arm = _at_width(arm, int(match["n_max"]), tried)
    return replace(arm, name=name)


def recorded_as(profile: Profile, name: str) -> str:
    """The arm with the same drafters at its own width: ``dflash2+k4v+pmin85@5`` is ``dflash2+k4v``.

    A build that cannot run the one cannot run the other, and only the other has records.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return name
    drafting = [part for part in match["parts"].split("+")[1:] if profile.parts[part].spec_types]
    return "+".join([match["base"], *drafting])


def known(table: Mapping[str, _T], name: str, kind: str, tried: str, origin: str) -> _T:
    """The arm or part of that name; raises ProfileError that names the nearest one."""
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(sorted(table)) or 'none'}"
    raise ProfileError(
        tried,
        f"there is no {kind} {name!r}; {hint}",
        f"add [{kind}s.{name}] to the profile ({origin}) or use a {kind} that it has".replace("a arm", "an arm"),
    )


def with_part(arm: Arm, part: Part) -> Arm:
    """The arm with the part's drafters behind its own and the part's flags over its own."""
    return replace(
        arm,
        families=_union(arm.families, part.families),
        spec_types=_union(arm.spec_types, part.spec_types),
        flags={**arm.flags, **part.flags},
    )


def _at_width(arm: Arm, n_max: int, tried: str) -> Arm:
    if arm.n_max is None:
        raise ProfileError(tried, f"{arm.name!r} has no n_max: nothing in it drafts by width", "leave out the @N")
    return replace(arm, n_max=n_max)


def _union(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*first, *second]))
