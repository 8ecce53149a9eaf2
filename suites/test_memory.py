"""What a drafter costs in memory: of the device on a GPU, resident memory of the server on a CPU."""

import pytest

from pytest_specdec.asking import MemoryMap
from pytest_specdec.judge import BaselineJudge, Judge
from pytest_specdec.records import Reason

# The driver gives memory out in pieces and the table of ngram-mod is 16 MiB of the host's; a model is hundreds.
NOTHING_MIB = 32.0
KERNELS_MIB = 8.0  # what the same models take more or less with the kernels of another CPU
LOOKUPS = {"dflash2+k4v": "dflash2", "dflash2+mod": "dflash2", "dflash2+mod+k4v": "dflash2", "ngram": "base"}


@pytest.mark.claim("memory.dflash2", source="study 2", arm="dflash2", over="base", on="mixed", kind="memory")
def test_what_the_drafter_adds(memory: MemoryMap, baseline: BaselineJudge) -> None:
    extra_mib = memory.extra("dflash2", over="base")
    tolerance = max(0.05, KERNELS_MIB / max(1.0, extra_mib))
    baseline.holds(extra_mib, unit="MiB", tolerance=tolerance, direction="lower")


@pytest.mark.claim(
    "memory.lookups", source="study 2", each=[*LOOKUPS], arms=["dflash2", "base"], on="mixed", kind="memory"
)
def test_lookups_add_nothing(arm: str, memory: MemoryMap, claim: Judge) -> None:
    over = LOOKUPS[arm]
    extra_mib = memory.extra(arm, over=over)
    claim.holds(
        extra_mib <= NOTHING_MIB,
        measured=f"{extra_mib:+.1f} MiB over {over} at the peak",
        expected=f"at most {NOTHING_MIB:g} MiB, which is noise",
        otherwise=Reason.MEMORY_GREW,
        evidence={"extra_mib": extra_mib, "loaded_mib": memory[arm].loaded_mib, "peak_mib": memory[arm].peak_mib},
    )
