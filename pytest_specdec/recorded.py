"""What the end of a run has to tell of the baselines: what it recorded, what it did not and why, and what is unused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specdec.baseline.describe import unused
from pytest_specdec.baseline.entries import EntryKind
from pytest_specdec.keys import DECLARED, NOTES, RECORDS, SETTINGS, VERDICTS
from pytest_specdec.places import packaged
from pytest_specdec.records import ClaimKind, Status, UpdateBaseline
from pytest_specdec.wording import counted

if TYPE_CHECKING:
    from pytest_specdec.records import Settings
    from pytest_specdec.session import Run

__all__ = ["left_over", "nothing_stored", "record"]

_RECORDED = "recorded in "
_TOLD = (_RECORDED, "updating the baseline", "recording ", "writing the baseline")  # the latter: errors of it


def record(config: pytest.Config, run: Run) -> None:
    """Write what passed claims offer into the baseline, if that was asked for. Raises BaselineError."""
    _note_refused(config, run)
    records = config.stash[RECORDS]
    if not records:
        return
    changes = run.record(records)
    if changes:
        config.stash[NOTES] += [f"{_RECORDED}{run.baselines.path}:", *(f"  {change}" for change in changes)]
    else:
        same = counted(len(records), "value stands", "values stand")
        config.stash[NOTES].append(f"{_RECORDED}{run.baselines.path}: nothing new, {same} there already")


def nothing_stored(config: pytest.Config) -> list[str]:
    """Why a run that was asked to record or to calibrate has done neither. Told once, whoever the workers are."""
    settings: Settings | None = config.stash.get(SETTINGS, None)
    if settings is None:
        return []
    verdicts = [verdict for _, verdict in config.stash[VERDICTS]]
    lines = []
    if settings.calibrate and not any(verdict.kind is ClaimKind.SPEED for verdict in verdicts):
        lines.append("nothing was calibrated: no speed claim was judged; select some, as with -m speed")
    tried = settings.update_baseline is not UpdateBaseline.OFF
    if tried and not any(note.startswith(_TOLD) for note in config.stash[NOTES]):
        lines.append("nothing was recorded: no claim that passed offers a value to the baseline")
    return lines


def left_over(config: pytest.Config, run: Run) -> list[str]:
    """Baseline entries that no claim reads: known only where everything was collected.

    What the package brings is for the suites that it brings: that others read little of it is no fault of theirs.
    """
    everything = config.args_source is not pytest.Config.ArgsSource.ARGS
    narrowed = ("ignore", "ignore_glob", "lf", "stepwise")
    declared = config.stash[DECLARED]
    if not declared or not everything or any(config.getoption(name, None) for name in narrowed):
        return []
    if run.baselines.path.is_relative_to(packaged("baselines")) and not _are_packaged(config):
        return []
    entries, device = run.baselines.entries, run.baselines.device
    spare = [c for c in unused(run.baselines, declared) if c in entries and entries[c].device == device]
    remedy = "remove them if their claims are gone, or correct the claims' ids"
    return [f"entries in {run.baselines.path} that no claim uses; {remedy}: {', '.join(spare)}"] if spare else []


def _are_packaged(config: pytest.Config) -> bool:
    """Whether the suites are those of the package too."""
    suites = packaged("suites").resolve()
    return all((config.invocation_params.dir / word).resolve().is_relative_to(suites) for word in config.args)


def _note_refused(config: pytest.Config, run: Run) -> None:
    """What was to be recorded and is not, because its measurement decides nothing."""
    if config.stash[SETTINGS].update_baseline is UpdateBaseline.OFF:
        return
    for _, verdict in config.stash[VERDICTS]:
        entry = run.baselines.entry(verdict.claim)
        recordable = "value" in verdict.evidence or (entry is not None and entry.kind is EntryKind.RECORDED)
        if recordable and verdict.status is not Status.PASS:
            config.stash[NOTES].append(f"not recorded: {verdict.claim} ({verdict.status}: {verdict.reason})")
