"""``doctor``: whether the suite could run here, and if not, what to do; one screen, nothing measured."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specdec import __version__
from pytest_specdec.cli.shared import Commands, add_setting
from pytest_specdec.errors import SpecdecError
from pytest_specdec.records import Profile
from pytest_specdec.wording import counted

if TYPE_CHECKING:
    from pytest_specdec.measure.own_device import OwnDevice

__all__ = ["Check", "add"]

_SPECULATION = ("--spec-type", "--spec-draft-n-max", "--spec-draft-p-min", "--metrics")
_MIB = 1024.0 * 1024.0
_CRAMPED = 0.05  # a device with less than this share of its memory free will not load a model
_HASH = 12
_WRAP = 100  # columns of what was found


@dataclass(frozen=True, slots=True)
class Check:
    """One line. ``remedy`` is empty where all is well; a ``fatal`` problem keeps the suite from running."""

    what: str
    found: str
    remedy: str = ""
    fatal: bool = False


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("doctor", help="whether the suite could run here, and what to do if not")
    add_setting(parser, "--llama-server", dest="server", metavar="PATH|embedded")
    add_setting(parser, "--specdec-profile", dest="profile", default="tiny", metavar="NAME|PATH")
    add_setting(parser, "--specdec-device", dest="device", metavar="DEVICE")
    add_setting(parser, "--specdec-baselines", dest="baselines", type=Path, metavar="DIR")
    add_setting(parser, "--specdec-lock-dir", dest="lock_dir", type=Path, metavar="DIR")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print every check. The status is 1 when the suite could not run."""
    checks = [Check("pytest-specdec", __version__), *_guarded("build", lambda: _build(arguments.server))]
    checks += _guarded("profile", lambda: _profile(arguments.profile))
    checks += _guarded("profile's flags", lambda: _own_flags(arguments))
    checks += _guarded("device", lambda: _device(arguments))
    checks += _guarded("orphans", _orphans)
    width = max(len(check.what) for check in checks)
    for check in checks:
        sign = "ok" if not check.remedy else "!!" if check.fatal else " !"
        print(f"{sign} {check.what:<{width}}  {_in_column(check.found, width + 5)}")
        if check.remedy:
            print(f"   {'':<{width}}  do: {_in_column(check.remedy, width + 9)}")
    fatal = sum(check.fatal for check in checks)
    told = counted(fatal, "problem keeps", "problems keep")
    print(f"\n{told} the suite from running" if fatal else "\nthe suite can run here")
    return 1 if fatal else 0


def _guarded(what: str, checks: Callable[[], Iterator[Check]]) -> list[Check]:
    """What was found before the first error, and the error as the last of it."""
    found: list[Check] = []
    try:
        found.extend(checks())
    except SpecdecError as error:
        found.append(Check(what, f"{error.tried}:\n{error.why}", error.remedy, fatal=True))
    return found


def _in_column(text: str, indent: int) -> str:
    """Long lines broken between words, each but the first behind ``indent`` blanks."""
    wrapped = (textwrap.wrap(line, _WRAP, break_long_words=False, break_on_hyphens=False) for line in text.splitlines())
    return f"\n{'':<{indent}}".join(line for lines in wrapped for line in lines)


def _build(wanted: str | None) -> Iterator[Check]:
    from pytest_specdec.server.build import locate

    build = locate(wanted)
    identity = build.identity
    commit = f", commit {identity.commit}" if identity.commit else ""
    yield Check("build", f"{identity.label}{commit}: {identity.location} ({identity.why})")
    missing = [flag for flag in _SPECULATION if flag not in build.capabilities.flags]
    known = f"{len(build.capabilities.flags)} flags, those of speculation among them"
    if missing:
        yield Check("flags", f"its --help lacks {', '.join(missing)}", "use a build of llama.cpp from 2026", fatal=True)
    else:
        yield Check("flags", known)


def _profile(name: str) -> Iterator[Check]:
    from pytest_specdec.profile import load, resolve

    profile = load(name)
    yield Check("profile", f"{profile.name}: judges {', '.join(profile.judged_arms)}")
    for model in _models_needed(profile):
        found = resolve(model, profile.models[model], profile.origin)
        sha256 = found.sha256
        where = str(found.path) if found.path else f"{found.hub}, which the server looks up"
        yield Check(f"model {model}", where + (f", SHA-256 {sha256[:_HASH]}…" if sha256 else ""))


def _own_flags(arguments: argparse.Namespace) -> Iterator[Check]:
    """Whether the build knows the flags that the user's own profile file sets."""
    from pytest_specdec.errors import BuildError, ProfileError
    from pytest_specdec.flags import refuse_misspelled_flags
    from pytest_specdec.profile import compose, load
    from pytest_specdec.server.build import locate

    with suppress(ProfileError):  # told where the profile is looked at
        profile = load(arguments.profile)
        if not profile.own_flags:
            return
        try:
            build = locate(arguments.server)
        except BuildError:  # told where the build is looked at
            return
        arms = [*profile.arms.values(), *(compose(profile, name) for name in profile.judged_arms)]
        refuse_misspelled_flags(build, profile, arms, ())
        yield Check("profile's flags", f"the build knows all {len(profile.own_flags)} that {profile.origin} sets")


def _models_needed(profile: Profile) -> list[str]:
    """The models of the base and of the judged arms: what the default suite loads."""
    from pytest_specdec.profile import compose

    arms = [compose(profile, name) for name in ("base", *profile.judged_arms)]
    return list(dict.fromkeys(name for arm in arms for name in (arm.target, arm.drafter) if name))


def _device(arguments: argparse.Namespace) -> Iterator[Check]:
    device = _taken(arguments)
    try:
        reader, identity = device.reader, device.identity
        sample, others = reader.sample(), reader.processes()
        driver = f", driver {identity.driver}" if identity.driver else ""
        known_as = f"{identity.name} ({identity.key}{driver})" if identity.is_gpu else "the CPU"
        yield Check("device", f"{known_as}; its baselines are called {identity.baseline_key}")
        yield from _climate(sample.temperature_c, sample.slowdowns, _most_start_c(arguments.profile))
        yield _memory(sample.memory_used_mib, sample.memory_total_mib)
        yield _sharing([process.pid for process in others] if others is not None else None, sample.load_1m)
        yield _lock(device)
        yield from _guarded("baseline", lambda: _baselines(arguments, identity.baseline_key))
    finally:
        device.close()


def _taken(arguments: argparse.Namespace) -> OwnDevice:
    """The device that a run would take with these options, not held."""
    from pytest_specdec.errors import BuildError
    from pytest_specdec.measure.choosing import Crew, take
    from pytest_specdec.records import Settings
    from pytest_specdec.server.build import locate

    build = None
    with suppress(BuildError):  # told where the build is looked at
        build = locate(arguments.server)
    settings = Settings(device=arguments.device, lock_dir=arguments.lock_dir, lock_timeout_s=0.0)
    return take(settings, build, Crew(), "doctor", 0.0, lambda _words: None)


def _most_start_c(profile: str) -> float | None:
    from pytest_specdec.errors import ProfileError
    from pytest_specdec.profile import load

    with suppress(ProfileError):  # told where the profile is looked at
        return load(profile).thermal.arm_start_c
    return None


def _climate(temperature_c: int | None, slowdowns: tuple[str, ...], most_c: float | None) -> Iterator[Check]:
    if temperature_c is not None:
        warm = most_c is not None and temperature_c > most_c
        remedy = f"speed claims wait until it is at {most_c:g} °C; if it never is, see to its cooling" if warm else ""
        yield Check("temperature", f"{temperature_c} °C", remedy)
    if slowdowns:
        yield Check("clocks", f"held down: {', '.join(slowdowns)}", "let it cool, look at fans and power supply")


def _memory(used_mib: float | None, total_mib: float | None) -> Check:
    if used_mib is None or total_mib is None:
        return Check("memory", "the device does not tell")
    found = f"{total_mib - used_mib:.0f} of {total_mib:.0f} MiB free"
    cramped = total_mib - used_mib < _CRAMPED * total_mib
    return Check("memory", found, "end what uses the device's memory" if cramped else "", fatal=cramped)


def _sharing(pids: list[int] | None, load_1m: float | None) -> Check:
    from pytest_specdec.device.processes import describe

    if pids is None:
        load = "" if load_1m is None else f"; load average {load_1m:.1f}"
        return Check("other processes", f"not listed for this device{load}")
    if pids:
        remedy = "end them before speed claims: figures of a shared device are void"
        return Check("other processes", ", ".join(map(describe, pids)), remedy)
    return Check("other processes", "none computes on the device")


def _lock(device: OwnDevice) -> Check:
    holder = device.locks.holder(device.identity.key)
    if holder is not None:
        return Check("lock", f"held by {holder}", "speed claims wait for that run to end")
    with device.locks.hold(device.identity.key):  # a directory that cannot be written shows here
        return Check("lock", "free")


def _baselines(arguments: argparse.Namespace, device: str) -> Iterator[Check]:
    from pytest_specdec.baseline import chosen_folder, load
    from pytest_specdec.errors import ProfileError
    from pytest_specdec.profile import load as load_profile

    try:
        profile = load_profile(arguments.profile)
    except ProfileError:  # told where the profile is looked at
        return
    stored = load(chosen_folder(arguments.baselines, Path.cwd()), profile.name, device)
    if stored.has_records:
        yield Check(
            "baseline",
            f"{counted(len(stored.entries), 'entry', 'entries')}, records of this device among them: {stored.path}",
        )
    else:
        remedy = "record with --specdec-update-baseline=new, once the build is trusted"
        yield Check("baseline", f"no records of the device {device}: what needs one is not judged", remedy)


def _orphans() -> Iterator[Check]:
    from pytest_specdec.device.orphans import find_orphans

    left = find_orphans()
    if left:
        yield Check("orphans", ", ".join(map(str, left)), "the next run ends them; or end them by their ids")
