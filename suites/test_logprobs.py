"""Log probabilities are the target's own, drafted tokens included."""

from collections.abc import Sequence

import pytest

from pytest_specdec.asking import LiveArm
from pytest_specdec.comparing import Lossless
from pytest_specdec.judge import Judge
from pytest_specdec.records import Json, Reason
from pytest_specdec.server.client import Client

from .texts import CODE, GREEDY

_LISTED = 3
# The server prints single precision: this much beside the noise is its rounding.
_PRINTED_NATS = 1e-4


@pytest.mark.claim("logprobs.same", source="llama.cpp #27972", kind="lossless", each="judged", over="base")
def test_log_probabilities_with_a_drafter(arm: str, server: LiveArm, claim: Judge, lossless: Lossless) -> None:
    def play(client: Client) -> list[Json]:
        rows = client.post("/completion", {**GREEDY, "prompt": CODE, "n_probs": _LISTED})["completion_probabilities"]
        return list(rows)

    base, rows = server.remembered("base", play), play(server.start(arm))
    claim.holds(
        len(rows) == len(base),
        measured=f"log probabilities for {len(rows)} of {len(base)} tokens",
        expected="one entry for each token",
        otherwise=Reason.LOGPROBS_MISSING,
    )
    shared = _of_the_same_text(base, rows)
    listed = [n for n in range(shared) if rows[n]["top_logprobs"]]
    tolerance = lossless.noise.verification.bound_nats + _PRINTED_NATS
    differing = [n for n in listed if not _close(base[n], rows[n], tolerance)]
    claim.holds(
        not differing,
        measured=f"{len(differing)} of {len(listed)} tokens differ"
        + (f", first token {differing[0]}" if differing else ""),
        expected=f"the base's log probabilities and its {_LISTED} best, within rounding",
        otherwise=Reason.LOGPROBS_DIFFER,
        evidence={"positions": differing},
    )
    claim.holds(
        len(listed) == shared,
        measured=f"{shared - len(listed)} of {shared} tokens come without a list",
        expected=f"the {_LISTED} best at every token",
        otherwise=Reason.LOGPROBS_MISSING,
    )


def _of_the_same_text(base: Sequence[Json], rows: Sequence[Json]) -> int:
    """How many rows were computed behind the same tokens: up to the first token that differs, and with it."""
    forks = (n for n, (mine, theirs) in enumerate(zip(base, rows, strict=True)) if mine["id"] != theirs["id"])
    return min(next(forks, len(base)) + 1, len(base))


def _close(mine: Json, theirs: Json, tolerance: float) -> bool:
    """Compared by rank: two tokens at a near-tie may change places, their probabilities hardly move."""
    ranked = [[float(row["logprob"]), *(float(t["logprob"]) for t in row["top_logprobs"])] for row in (mine, theirs)]
    if len(ranked[0]) != len(ranked[1]):
        return False
    return all(abs(a - b) <= tolerance for a, b in zip(*ranked, strict=True))
