"""Is the distribution of sampled tokens the one that the target alone has?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pytest_specdec.records import Finding, Json, Reason, Status
from pytest_specdec.stats.distribution import EValue, permutation_p

__all__ = ["judge_distribution"]

# Each of the two tests; a claim is wrongly red at most once in 500 builds.
_ALPHA = 0.001
_PERMUTATIONS = 1999

Sequences = Sequence[Sequence[int]]
Known = Mapping[tuple[str, tuple[int, ...]], Mapping[int, float]]


def judge_distribution(
    base: Mapping[str, Sequences],
    other: Mapping[str, Sequences],
    known: Known,
    positions: Sequence[int],
) -> Finding:
    """Compare sampled token sequences by prompt, at ``positions`` (the first token never passes the verifier).

    ``known`` gives the target's own probabilities after (prompt, tokens before): there an e-value needs no base sample.
    """
    p = permutation_p({name: (base[name], other[name]) for name in base}, positions, permutations=_PERMUTATIONS, seed=1)
    evalue = EValue(known)
    for name, sequences in other.items():
        for sequence in sequences:
            for position in positions:
                if position < len(sequence):
                    evalue.observe((name, tuple(sequence[:position])), sequence[position])
    samples = sum(map(len, other.values()))
    evidence: dict[str, Json] = {
        "samples": samples, "p_value": p, "log_e_value": evalue.largest_log, "known_observations": evalue.observations,
    }  # fmt: skip
    held = p > _ALPHA and not evalue.rejects(_ALPHA)
    return Finding(
        status=Status.PASS if held else Status.FAIL,
        reason=Reason.HELD if held else Reason.DISTRIBUTION_DIFFERS,
        measured=f"{samples} samples: p {p:.2g}, e-value {math.exp(min(evalue.largest_log, 300.0)):.3g}",
        expected=f"tokens {positions[0] + 1} to {positions[-1] + 1} as the target draws them; p > {_ALPHA:g}, "
        f"e-value < {1 / _ALPHA:g}",
        evidence=evidence,
    )
