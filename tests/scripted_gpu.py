"""A GPU that plays a script: the real pynvml loads a library that is built here. No GPU takes part."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT

__all__ = ["CARD", "COOL", "ScriptedGpu", "library"]

SOURCE = ROOT / "tests" / "gate" / "faults" / "nvml" / "scripted_nvml.c"
_FLAGS = ("-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")

CARD = """
driver 580.65.06
device GPU-aaaa NVIDIA Scripted 6000
memory_total_mib 0 98304
memory_used_mib 0 1024
sm_clock_mhz 0 2400
memory_clock_mhz 0 14000
power_mw 0 310000
power_limit_mw 0 600000
utilisation_pct 0 97
reasons 0 0
"""
COOL = CARD + "temperature_c 0 41\n"


def library(directory: Path, *definitions: str) -> Path:
    """Compile the scripted library into ``directory``; skips the test where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the scripted NVML library with")
    named = [*_FLAGS, *(f"-D{d}" for d in definitions), "-o", str(directory / "libnvidia-ml.so.1")]
    subprocess.run([compiler, *named, str(SOURCE)], check=True, timeout=120)
    return directory


@dataclass(frozen=True)
class ScriptedGpu:
    """One card, and the clock of its script, which stands still until ``at`` moves it."""

    library: Path
    directory: Path

    def plays(self, script: str) -> dict[str, str]:
        """The environment of a process that sees this card."""
        self.script.write_text(script, "utf-8")
        self.at(0)
        return {
            "LD_LIBRARY_PATH": str(self.library),
            "SCRIPTED_NVML": str(self.script),
            "SCRIPTED_NVML_CLOCK": str(self.clock),
        }

    def at(self, seconds: float) -> None:
        """Let the script be at that second. In one step, since it is read at any moment."""
        later = self.clock.with_suffix(".new")
        later.write_text(repr(float(seconds)), "utf-8")
        later.replace(self.clock)

    @property
    def script(self) -> Path:
        """The script's file."""
        return self.directory / "gpu-script"

    @property
    def clock(self) -> Path:
        """The clock's file."""
        return self.directory / "gpu-clock"
