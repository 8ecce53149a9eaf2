"""``claims``: what the suites claim, where each claim comes from, and what is stored for it."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_specdec.baseline import Entry, chosen_folder, load
from pytest_specdec.cli.listing import DeclaredClaim, collect
from pytest_specdec.cli.shared import Commands, add_setting, device_name
from pytest_specdec.report.table import table
from pytest_specdec.wording import counted

__all__ = ["add"]


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("claims", help="list the claims of the suites, with their baseline entries")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="suites; default: those of the package")
    parser.add_argument("-m", dest="markers", metavar="EXPR", help="only claims with these markers, as in pytest")
    add_setting(parser, "--specdec-profile", dest="profile", metavar="NAME|PATH")
    add_setting(parser, "--specdec-device", dest="device", metavar="DEVICE", help="default: the one that a run takes")
    add_setting(parser, "--specdec-baselines", dest="baselines", type=Path, metavar="DIR")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one line per claim."""
    chosen = [f"--specdec-profile={arguments.profile}"] if arguments.profile else []
    listing = collect(chosen, arguments.paths, arguments.markers)
    device = device_name(arguments.device)
    stored = load(chosen_folder(arguments.baselines, Path.cwd()), listing.profile, device)
    rows = [_row(claim, stored.entry(claim.id)) for claim in listing.claims]
    print(table(("claim", "kind", "source", "arms", "on", "baseline"), rows))
    number = counted(len(rows), "claim")
    print(f"\n{number} for the profile {listing.profile}; baselines of the device {device}: {stored.path}")
    return 0


def _row(claim: DeclaredClaim, entry: Entry | None) -> tuple[str, ...]:
    arms = " | ".join(claim.arms) + (f" over {claim.over}" if claim.over else "")
    kind = claim.kind + (" (study)" if claim.study else "")
    return claim.id, kind, claim.source, arms, " ".join(claim.on) or "-", stored_words(entry)


def stored_words(entry: Entry | None) -> str:
    """An entry in a few words."""
    if entry is None:
        return "-"
    if entry.lineages:
        return f"{entry.kind}: " + ", ".join(f"{lineage.expect} ({lineage.name})" for lineage in entry.lineages)
    if entry.value is None:
        return str(entry.kind)
    build = f" ({entry.provenance['build']}, {entry.provenance['date']})" if entry.provenance else ""
    return f"{entry.kind}: {entry.value:g} {entry.unit}{build}"
