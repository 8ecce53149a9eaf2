"""Every number of the recipe, and where its intermediate files lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
BUILD = HERE / "build"
PACKAGE = HERE.parent / "pytest_specdec"
SHIPPED = PACKAGE / "models"
WORKLOADS = PACKAGE / "workloads" / "data"

SEED = 11
HALF = True  # matrix products in bfloat16: 1.7 times as fast where the CPU has instructions for it
CONTEXT = 4096
VOCABULARY = 1024
END = 0  # begins and ends every text
MASK = 1  # what a DFlash drafter reads at the places that it fills in


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a transformer."""

    width: int
    layers: int
    feed_forward: int
    heads: int
    kv_heads: int
    head: int = 64
    tied: bool = False


@dataclass(frozen=True, slots=True)
class Drafter:
    """What makes a DFlash drafter: its block, the target layers that it reads, and the parts that DFlash 2 added."""

    shape: Shape
    block: int
    taps: tuple[int, ...] = (1, 3)
    second: bool = True
    kernel: int = 3
    group: int = 8
    rank: int = 32
    top_k: int = 8


TARGET = Shape(width=256, layers=4, feed_forward=1024, heads=4, kv_heads=2)
DRAFT = Shape(width=128, layers=2, feed_forward=256, heads=2, kv_heads=1, tied=True)
SMALL = Shape(width=256, layers=2, feed_forward=512, heads=4, kv_heads=2)
DRAFTERS = {
    "dflash2": Drafter(SMALL, block=8),
    "dflash1": Drafter(SMALL, block=16, second=False),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how fast a member trains.

    ``code`` is how often a drafter is shown a reply in code, against 1 for all else. With ``steps`` it sets what the
    drafter accepts. Neighbours differ by more than their numbers say: dflash2 gave 5.1 tokens per cycle on code with
    (480, 2.2), 5.9 with (490, 2.3) and 5.6 with (495, 2.4), and 2.4 on prose each time.
    """

    steps: int
    rate: float
    code: float = 1.0


PLANS = {
    "target": Plan(steps=800, rate=3e-3),
    "dflash2": Plan(steps=480, rate=3e-3, code=2.2),
    "dflash1": Plan(steps=420, rate=3e-3, code=2.2),
    "draft": Plan(steps=350, rate=3e-3, code=1.5),
}
