"""What several test modules need of a speed panel: its surroundings without a build, and its evidence made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_specdec.baseline import Baselines, Calibrated, Comparability, Entry
from pytest_specdec.baseline.entries import EntryKind, StoredContrast
from pytest_specdec.expectation import Expectation
from pytest_specdec.measure.question import Answer, Question
from pytest_specdec.measure.runner import Measured
from pytest_specdec.panels import Evidence
from pytest_specdec.profile import load
from pytest_specdec.records import (
    Cell,
    CellKey,
    Claim,
    ClaimKind,
    Profile,
    Prompt,
    Settings,
    SpeedPlan,
    Void,
    Workload,
)

__all__ = ["HERE", "SETTING", "Surroundings", "calibrated", "claim", "evidence", "published", "recorded"]

HERE, ELSEWHERE = "this machine", "another machine"
PROMPTS = tuple(Prompt(f"p{n}", "text", "build" if n < 6 else "rest") for n in range(8))
CODE = Workload("code", PROMPTS, {"temperature": 0.0}, "b" * 64)
AS_USUAL = Settings()
SETTING = Comparability({"target": "a" * 64}, {"code": "b" * 64}, "--spec-type draft-dflash")


def small_plan(**more: Any) -> Profile:
    """The tiny profile with figures that the tests may rely on."""
    return replace(load("tiny"), speed=SpeedPlan(**{"claims": 40, "sigma": 0.05, "sessions": 5, **more}))


@dataclass
class Surroundings:
    """Of one run: settings, stored entries and this machine. ``setting`` is what a record must agree with."""

    settings: Settings = AS_USUAL
    profile: Profile = field(default_factory=small_plan)
    baselines: Baselines = field(default_factory=lambda: stored())
    statistical_claims: int = 1
    device: str = "cpu"
    machine: str = HERE
    setting: Comparability | None = SETTING
    calibrated: dict[str, Calibrated] = field(default_factory=dict)
    code: Workload = CODE

    def workload(self, name: str) -> Workload:
        assert name == self.code.name
        return self.code

    def comparability(self, claim: Claim) -> Comparability | None:
        return self.setting

    def is_other_machine(self, machine: str) -> bool:
        return machine != self.machine


def stored(*entries: Entry, path: Path = Path("cpu.json"), **more: Any) -> Baselines:
    """The stored entries by claim."""
    return Baselines("cpu", path, {entry.claim: entry for entry in entries}, (), **more)


def claim(**more: Any) -> Claim:
    """``dflash2`` over ``base`` on the eight prompts."""
    return Claim(**{
        "id": "speedup.code", "source": "test", "kind": ClaimKind.SPEED, "arms": ("dflash2",), "over": "base",
        "on": ("code",), **more,
    })  # fmt: skip


def contrast(**more: Any) -> StoredContrast:
    """A record of the prompts that are for building: twice as fast, four tokens a cycle."""
    logs = {f"p{n}": 0.7 for n in range(6)}
    return StoredContrast(**{
        "logs": logs, "exact_logs": dict.fromkeys(logs, 1.4), "cycles_per_s": (100.0, 50.0), "pairs": 20,
        "sigma": 0.04, "se": 0.001, "tau": 0.002, "tau_dof": 9, "margin": 0.05, **more,
    })  # fmt: skip


def recorded(machine: str = HERE, **more: Any) -> Entry:
    """A record of ``speedup.code``."""
    return Entry(**{
        "claim": "speedup.code", "kind": EntryKind.RECORDED, "value": 2.0, "unit": "×", "device": "cpu",
        "comparability": SETTING, "contrast": contrast(),
        "provenance": {"machine": machine, "build": "b1", "date": "2026-11-01"}, **more,
    })  # fmt: skip


def published(**more: Any) -> Entry:
    """A published figure of ``speedup.code`` with a floor."""
    return Entry(**{
        "claim": "speedup.code", "kind": EntryKind.PUBLISHED, "value": 2.26, "unit": "×", "floor": 1.1,
        "device": "rtx-pro-6000", "caveat": "measured once", **more,
    })  # fmt: skip


def calibrated(sigma: float = 0.03, machine: str = HERE, **more: Any) -> Calibrated:
    """What A/A measured."""
    return Calibrated(**{
        "sigma": sigma, "pairs": 40, "sessions": 5, "mean": 0.0, "mean_se": 0.001, "lag1": 0.0, "tau": 0.002,
        "tau_dof": 4, "date": "2026-11-01", "machine": machine, **more,
    })  # fmt: skip


def evidence(
    answer: Answer,
    cells: Mapping[CellKey, Cell],
    *,
    entry: Entry | None = None,
    words: str = "as expected",
    remark: str = "",
    void: Void | None = None,
    rounds: int = 2,
    residuals: bool = False,
) -> Evidence:
    """An answer and the cells that it rests on, as a panel hands them out."""
    question: Question = answer.question
    expectation = Expectation(question, entry, words, remark, residuals)
    return Evidence(expectation, answer, Measured(cells, {}, {question.claim: answer}, rounds, void))
