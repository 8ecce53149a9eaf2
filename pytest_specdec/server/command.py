"""The command line of one server. Pure: what goes in decides what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_specdec.records import Arm, Json, Mode, Profile

__all__ = ["HIDDEN", "ModelArguments", "argv", "redacted", "speculation"]

HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class ModelArguments:
    """How the target and the drafter are named on the command line: by a path or by a repository."""

    target: str
    target_is_hub: bool = False
    drafter: str | None = None
    drafter_is_hub: bool = False


def argv(
    command: Sequence[str],
    profile: Profile,
    arm: Arm,
    mode: Mode,
    models: ModelArguments,
    port: int,
    api_key: str,
    *,
    launcher: Sequence[str] = (),
    extra_flags: Mapping[str, Json] | None = None,
    arm_args: Sequence[str] = (),
) -> tuple[str, ...]:
    """The full argument list.

    ``extra_flags`` are a claim's own and replace the profile's of the same name; ``arm_args`` are the user's, appended
    to every speculative arm.
    """
    flags = {
        **profile.server_flags,
        **_mode_flags(profile, arm, mode),
        **_speculative_flags(arm),
        **(extra_flags or {}),
    }
    return (
        *launcher,
        *command,
        *_model_arguments(models),
        *("--host", "127.0.0.1", "--port", str(port), "--api-key", api_key),
        *_words(flags),
        *(arm_args if arm.drafted else ()),
    )


def speculation(arm: Arm) -> str:
    """The words of the command line that make this arm what it is, without models and paths."""
    return " ".join(_words(_speculative_flags(arm)))


def redacted(arguments: Sequence[str], api_key: str) -> tuple[str, ...]:
    """The same arguments for eyes and files."""
    return tuple(HIDDEN if word == api_key else word for word in arguments)


def _mode_flags(profile: Profile, arm: Arm, mode: Mode) -> dict[str, Json]:
    plain, drafted = {
        Mode.EXACT: (profile.exact_flags, profile.exact_drafted_flags),
        Mode.SPEED: (profile.speed_flags, profile.speed_drafted_flags),
    }[mode]
    return {**plain, **(drafted if arm.drafter else {})}


def _speculative_flags(arm: Arm) -> dict[str, Json]:
    flags: dict[str, Json] = {}
    if arm.spec_types:
        flags["--spec-type"] = ",".join(arm.spec_types)
    if arm.n_max is not None:
        flags["--spec-draft-n-max"] = arm.n_max
    return {**flags, **arm.flags}


def _model_arguments(models: ModelArguments) -> tuple[str, ...]:
    target = ("--hf-repo" if models.target_is_hub else "--model", models.target)
    if models.drafter is None:
        return target
    return (*target, "--hf-repo-draft" if models.drafter_is_hub else "--model-draft", models.drafter)


def _words(flags: Mapping[str, Json]) -> tuple[str, ...]:
    """``True`` is a flag without a value; ``False`` leaves the flag out."""
    words: list[str] = []
    for name, value in flags.items():
        if value is True:
            words.append(name)
        elif value is not False:
            words += [name, str(value)]
    return tuple(words)
