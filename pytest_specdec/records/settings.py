"""What the user asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

__all__ = ["Budget", "Effort", "Inconclusive", "Settings", "UpdateBaseline"]


class Effort(StrEnum):
    """How long property tests look for a counterexample."""

    SECONDS = "seconds"
    MINUTES = "minutes"
    NIGHTLY = "nightly"


class Inconclusive(StrEnum):
    """What pytest makes of an inconclusive verdict."""

    FAIL = "fail"
    SKIP = "skip"


class UpdateBaseline(StrEnum):
    """What a run may write into the baseline."""

    OFF = "off"
    ALL = "all"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a run may spend: pairs per contrast, or seconds of the device in all."""

    pairs: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for, parsed and checked once. ``margin`` is None where the default or the entry decides."""

    llama_server: str | None = None
    llama_server_base: str | None = None
    server_urls: tuple[tuple[str, str], ...] = ()
    launcher: tuple[str, ...] = ()
    profile: str = "tiny"
    arm_args: tuple[str, ...] = ()
    baselines: Path | None = None
    update_baseline: UpdateBaseline = UpdateBaseline.OFF
    accept_regression: str | None = None
    inconclusive: Inconclusive = Inconclusive.FAIL
    run_dir: Path | None = None
    report: Path | None = None
    history: Path | None = None
    quiet: bool = False
    property_effort: Effort = Effort.SECONDS
    margin: float | None = None
    alpha: float = 0.01
    beta: float = 0.05
    budget: Budget = Budget()
    seed: int | None = None
    plan: bool = False
    resume: Path | None = None
    calibrate: bool = False
    device: str | None = None
    servers_at_once: int | None = None
    lock_dir: Path | None = None
    lock_timeout_s: float = 3600.0
    cooldown_timeout_s: float = 300.0

    @property
    def writes_baselines(self) -> bool:
        """Whether this run is to record or to calibrate."""
        return self.calibrate or self.update_baseline is not UpdateBaseline.OFF
