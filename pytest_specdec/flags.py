"""Flags that the user asked for and the build does not know: a mistake of theirs, and no verdict."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Collection, Iterable, Sequence

from pytest_specdec.errors import BuildError
from pytest_specdec.records import Arm, Profile
from pytest_specdec.server.build import Build

__all__ = ["refuse_misspelled_flags"]


def refuse_misspelled_flags(build: Build, profile: Profile, arms: Iterable[Arm], arm_args: Sequence[str]) -> None:
    """Raises BuildError where ``--specdec-arm-args`` or the user's own profile file asks for what ``build`` lacks.

    A flag of a built-in profile is none of these: a build that is too old for it cannot run that arm, which is said
    where the arm is judged.
    """
    of_servers = (
        profile.server_flags, profile.exact_flags, profile.exact_drafted_flags, profile.speed_flags,
        profile.speed_drafted_flags,
    )  # fmt: skip
    used = [name for table in (*of_servers, *(arm.flags for arm in arms)) for name in table]
    own = [name for name in dict.fromkeys(used) if name in profile.own_flags]
    for asked_by, words in (
        (f"--specdec-arm-args={shlex.join(arm_args)}", arm_args),
        (f"the flags of the profile {profile.origin}", own),
    ):
        unknown = [word for word in words if word.startswith("--") and word not in build.capabilities.flags]
        if unknown:
            named = ", ".join(_with_nearest(word, build.capabilities.flags) for word in unknown)
            raise BuildError(
                f"using {asked_by}",
                f"{build.identity.location} does not list {named} in its --help",
                "correct the flag, or use a build that has it",
            )


def _with_nearest(flag: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(flag, known, n=1)
    return f"{flag} (did you mean {near[0]}?)" if near else flag
