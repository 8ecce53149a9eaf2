"""``baseline show|diff|check``: stored entries for the eye, for a review and for CI."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from pytest_specdec.baseline import chosen_folder, load
from pytest_specdec.baseline.describe import document_changes, old_entries, unused
from pytest_specdec.baseline.entries import Entry
from pytest_specdec.baseline.store import INVARIANTS, parse, place_of, read
from pytest_specdec.cli.claims import stored_words
from pytest_specdec.cli.listing import collect
from pytest_specdec.cli.shared import Commands, add_setting, device_name
from pytest_specdec.errors import BaselineError, ProfileError
from pytest_specdec.places import baselines_folder
from pytest_specdec.profile import load as load_profile
from pytest_specdec.report.table import table
from pytest_specdec.wording import counted

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("baseline", help="show, compare or check stored baselines")
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="every entry that applies to a profile on a device")
    _add_where(show)
    add_setting(show, "--specdec-device", dest="device", metavar="DEVICE", help="default: the one that a run takes")
    show.set_defaults(run=_show)
    diff = actions.add_parser("diff", help="what changed between two baseline files, in words")
    diff.add_argument("old", metavar="OLD", help="a file, or REV:PATH for what git has")
    diff.add_argument("new", metavar="NEW", help="likewise")
    diff.set_defaults(run=_diff)
    check = actions.add_parser("check", help="validate every file; name entries that are unused or old")
    _add_where(check)
    check.add_argument("--suites", action="append", default=[], metavar="PATH", help="default: those of the package")
    check.set_defaults(run=_check)


def _add_where(parser: argparse.ArgumentParser) -> None:
    add_setting(parser, "--specdec-profile", dest="profile", metavar="NAME|PATH")
    add_setting(parser, "--specdec-baselines", dest="baselines", type=Path, metavar="DIR")


def _show(arguments: argparse.Namespace) -> int:
    profile = load_profile(arguments.profile or "tiny")
    device = device_name(arguments.device)
    stored = load(chosen_folder(arguments.baselines, Path.cwd()), profile.name, device)
    today = date.today()
    rows = [_row(entry, today) for _, entry in sorted(stored.entries.items())]
    print(table(("claim", "entry", "tolerance", "better", "device", "age"), rows))
    for deviation in stored.deviations:
        print(f"\nknown deviation of {deviation.claim}: {deviation.instead}")
        print(f"  {deviation.reference}; seen {deviation.seen}")
    print(f"\n{counted(len(rows), 'entry', 'entries')} for the profile {profile.name} on {device}: {stored.path}")
    return 0


def _row(entry: Entry, today: date) -> tuple[str, ...]:
    recorded = entry.provenance.get("date")
    age = f"{(today - date.fromisoformat(str(recorded))).days} days" if recorded else "-"
    tolerance = f"{entry.tolerance:.0%}" if entry.tolerance is not None else "-"
    better = entry.direction.value if entry.value is not None else "-"
    return entry.claim, stored_words(entry), tolerance, better, entry.device, age


def _diff(arguments: argparse.Namespace) -> int:
    lines = document_changes(_document(arguments.old), _document(arguments.new))
    print("\n".join(lines) if lines else "no difference")
    return 1 if lines else 0


def _document(where: str) -> dict[str, Any]:
    """A valid baseline from a file, or from git where no such file exists and the name has a colon."""
    path = Path(where)
    if path.exists() or ":" not in where:
        return read(path, *place_of(path))
    done = subprocess.run(["git", "show", where], capture_output=True, check=False)
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip()
        raise BaselineError(f"reading {where} from git", why, "write it as REV:PATH, for example HEAD:baselines/x.json")
    return parse(done.stdout.decode("utf-8", errors="replace"), where)


def _check(arguments: argparse.Namespace) -> int:
    folder = arguments.baselines or baselines_folder(Path.cwd())
    files = sorted(folder.rglob("*.json"))
    if not files:
        raise BaselineError(f"checking the baselines in {folder}", "it holds no JSON file", "name another folder")
    broken = list(_broken(files))
    remarks = [] if broken else [*_old(files), *_unused(folder, files, arguments)]
    for line in (*broken, *remarks):
        print(line)
    faults = len(broken) + sum(1 for line in remarks if line.startswith("unused"))
    print(f"{counted(len(files), 'file')} in {folder}: " + (counted(faults, "fault") if faults else "all valid"))
    return 1 if faults else 0


def _broken(files: list[Path]) -> Iterator[str]:
    for path in files:
        try:
            read(path, *place_of(path))
        except BaselineError as error:
            yield str(error)


def _old(files: list[Path]) -> Iterator[str]:
    for path in files:
        for line in old_entries(read(path, *place_of(path)), date.today()):
            yield f"old: {path.name}: {line}"


def _unused(folder: Path, files: list[Path], arguments: argparse.Namespace) -> Iterator[str]:
    """Per profile, since the judged arms are the profile's; what is stored for all is unused when no profile has it."""
    by_profile: dict[str, list[Path]] = {}
    for path in files:
        if path.name != INVARIANTS or path.parent != folder:
            by_profile.setdefault(path.parent.name, []).append(path)
    spare: set[str] | None = None
    for name, paths in by_profile.items():
        asked = arguments.profile if arguments.profile and load_profile(arguments.profile).name == name else name
        try:
            load_profile(asked)
        except ProfileError:
            yield f"not looked at for unused entries: {name} (no built-in profile; name it with --specdec-profile=PATH)"
            continue
        declared = [claim.id for claim in collect([f"--specdec-profile={asked}"], arguments.suites).claims]
        general = set(unused(load(folder, "*none*", "*none*"), declared))
        spare = general if spare is None else spare & general
        for path in paths:
            own = unused(load(folder, name, path.stem), declared)
            yield from (f"unused in {path.relative_to(folder)}: {claim}" for claim in own if claim not in general)
    yield from (f"unused in {INVARIANTS}: {claim}" for claim in sorted(spare or ()))
