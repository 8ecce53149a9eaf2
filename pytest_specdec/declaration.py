"""From ``@pytest.mark.claim(…)`` to a frozen ``Claim``, its repetition over arms and its selection markers."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_specdec.errors import ProfileError, SuiteError
from pytest_specdec.markers import FAMILIES
from pytest_specdec.profile import compose
from pytest_specdec.records import Claim, ClaimKind, Figure, Json, Profile

__all__ = ["claim_of", "repeated_over", "selection_markers", "with_own_base"]

_KEYWORDS = (
    "source", "kind", "arm", "arms", "over", "on", "each", "study", "server_flags", "figure", "group", "against",
    "against_over", "across_builds",
)  # fmt: skip
_EACH_JUDGED = "judged"


def claim_of(args: Sequence[Any], keywords: Mapping[str, Any], repeated_arm: str | None) -> Claim:
    """The claim that a marker declares. ``repeated_arm`` is this test's arm where the marker has ``each=``.

    Raises SuiteError when the declaration is not one.
    """
    tried = f"reading the declaration claim({', '.join(map(repr, args))})"
    if len(args) != 1 or not isinstance(args[0], str) or not args[0]:
        raise SuiteError(tried, "its one positional argument is the claim's id", 'write claim("width.clamp", source=…)')
    for name in keywords:
        if name not in _KEYWORDS:
            near = difflib.get_close_matches(name, _KEYWORDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "known: " + ", ".join(_KEYWORDS)
            raise SuiteError(tried, f"unknown keyword {name!r}; {hint}", "correct it")
    if not keywords.get("source"):
        raise SuiteError(tried, "it has no source", 'say where the claim comes from, as in source="study 8"')
    arms = _arms(keywords, repeated_arm, tried)
    over = keywords.get("over")
    kind = keywords.get("kind", ClaimKind.SPEED if over else ClaimKind.EXACT)
    if kind not in list(ClaimKind):
        raise SuiteError(tried, f"there is no kind {kind!r}", "one of " + ", ".join(ClaimKind))
    on = keywords.get("on", ())
    flags: Mapping[str, Json] = {"--" + name: value for name, value in keywords.get("server_flags", {}).items()}
    return Claim(
        id=f"{args[0]}[{repeated_arm}]" if repeated_arm else args[0],
        source=keywords["source"],
        kind=ClaimKind(kind),
        arms=arms,
        on=(on,) if isinstance(on, str) else tuple(on),
        over=over,
        study=bool(keywords.get("study", False)),
        server_flags=flags,
        figure=_figure(keywords, tried),
        group=keywords.get("group", ""),
        against=keywords.get("against"),
        against_over=keywords.get("against_over"),
        across_builds=bool(keywords.get("across_builds", False)),
    )


def _figure(keywords: Mapping[str, Any], tried: str) -> Figure:
    name = keywords.get("figure", Figure.THROUGHPUT)
    if name not in list(Figure):
        raise SuiteError(tried, f"there is no figure {name!r}", "one of " + ", ".join(Figure))
    return Figure(name)


def with_own_base(claim: Claim, profile: Profile) -> Claim:
    """The second of two contrasts over the arm that is its target without a drafter, unless the claim names another."""
    if claim.against is None or claim.against_over is not None:
        return claim
    try:
        target = compose(profile, claim.against).target
    except ProfileError:  # then it is not judged here, and says so by itself
        return replace(claim, against_over=claim.over)
    bases = [arm.name for arm in profile.arms.values() if not arm.drafted and arm.target == target]
    return replace(claim, against_over=bases[0] if bases else claim.over)


def repeated_over(keywords: Mapping[str, Any], profile: Profile) -> tuple[str, ...]:
    """The arms of ``each=``, once each: names, among them ``judged`` for all that the profile judges."""
    each = keywords.get("each", ())
    names = (each,) if isinstance(each, str) else tuple(each)
    arms = (arm for name in names for arm in (profile.judged_arms if name == _EACH_JUDGED else (name,)))
    return tuple(dict.fromkeys(arms))


def selection_markers(claim: Claim, profile: Profile) -> tuple[str, ...]:
    """Families of every arm involved, and the kind; ``study`` claims have no family.

    Whether two builds have the same target concerns every family that is judged by it.
    """
    if claim.study:
        return ("study", claim.kind.value)
    families = dict.fromkeys(family for arm in _judged(claim) for family in _families(profile, arm))
    if claim.across_builds and not families:
        families = dict.fromkeys(family for arm in profile.judged_arms for family in _families(profile, arm))
    return (*families, claim.kind.value)


def _arms(keywords: Mapping[str, Any], repeated_arm: str | None, tried: str) -> tuple[str, ...]:
    single = [keywords["arm"]] if "arm" in keywords else []
    several = keywords.get("arms", ())
    if isinstance(several, str):
        several = (several,)
    arms = (*([repeated_arm] if repeated_arm else []), *single, *several)
    if not arms:
        raise SuiteError(tried, "it names no arm", "give arm=, arms= or each=")
    return arms


def _judged(claim: Claim) -> tuple[str, ...]:
    return (*claim.arms, *((claim.against,) if claim.against else ()))


def _families(profile: Profile, arm: str) -> Iterable[str]:
    """An arm that the profile lacks is not judged, but still selected by the family that its name says."""
    try:
        return compose(profile, arm).families
    except ProfileError:
        return [family for family in FAMILIES if arm.startswith(family)]
