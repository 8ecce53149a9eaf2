"""How fast the arms decode with the inflated target: ``LLAMA_SERVER=… python -m models.speed [ARM …]``.

Two threads, a fresh server for every arm and round; the second round visits the arms in the opposite order, so that a
drift of the machine cancels. Leave the machine alone meanwhile: llama.cpp's threads wait for each other at every step.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import TYPE_CHECKING

from pytest_specdec.models.inflate import inflated_target

from models.measure import Tally, arms, ask
from models.serve import complete, server
from models.settings import SHIPPED

if TYPE_CHECKING:
    import httpx

NAMES = ("code", "prose", "session")
PROMPTS, TURNS, THREADS = 5, 4, 2


def main() -> None:
    chosen = {arm: more for arm, more in arms(SHIPPED).items() if not sys.argv[1:] or arm in ("base", *sys.argv[1:])}
    model = inflated_target()
    base: dict[str, Tally] = {}
    tokens: dict[tuple[str, str], int] = defaultdict(int)
    spent: dict[tuple[str, str], float] = defaultdict(float)
    for order in (list(chosen), list(reversed(chosen))):
        for arm in order:
            with server(model, *chosen[arm], threads=THREADS) as client:
                complete(client, "def ", 4)
                tallies = {name: _asked(client, name, base.get(name)) for name in NAMES}
            base = base or tallies
            for name, tally in tallies.items():
                timings = [reply["timings"] for reply in tally.replies]
                tokens[arm, name] += sum(t["predicted_n"] for t in timings)
                spent[arm, name] += sum(t["predicted_ms"] for t in timings) / 1000
    print("| arm |", " | ".join(f"{name} tok/s | over base" for name in NAMES), "|")
    print("|---" * (1 + 2 * len(NAMES)) + "|")
    for arm in chosen:
        rates = {name: tokens[arm, name] / spent[arm, name] for name in NAMES}
        over = {name: rates[name] * spent["base", name] / tokens["base", name] for name in NAMES}
        print(f"| {arm} |", " | ".join(f"{rates[name]:.0f} | {over[name]:.2f}×" for name in NAMES), "|", flush=True)


def _asked(client: httpx.Client, name: str, base: Tally | None) -> Tally:
    # The session's prompts are long and only decoding is timed: the server may keep them.
    session = name == "session"
    return ask(client, name, base, TURNS if session else PROMPTS, cached=session)


if __name__ == "__main__":
    main()
