"""Do two sets of token sequences come from one distribution?

Two answers: a permutation test between two samples, and an e-value against a distribution that is known, which may be
looked at after every observation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["EValue", "permutation_p"]

Sequences = Sequence[Sequence[int]]
Context = tuple[str, tuple[int, ...]]  # the prompt's name and the tokens so far

# Below this many occurrences in both samples together a token is pooled with the other rare ones.
_LEAST = 5


def permutation_p(
    strata: Mapping[str, tuple[Sequences, Sequences]], positions: Sequence[int], *, permutations: int, seed: int
) -> float:
    """The p-value of the G statistic summed over strata (prompts) and positions, labels permuted within each stratum.

    Exact for any sample size, since whole sequences are exchanged: the dependence between positions is kept.
    """
    rng = np.random.default_rng(seed)
    tables = [_Stratum.of(first, second, positions) for first, second in strata.values()]
    observed = sum(table.g(table.labels) for table in tables)
    as_large = sum(
        sum(table.g(rng.permutation(table.labels)) for table in tables) >= observed - 1e-9 for _ in range(permutations)
    )
    return (as_large + 1) / (permutations + 1)


@dataclass(frozen=True)
class _Stratum:
    """One prompt's sequences of both samples: ``columns`` are pooled token classes by position."""

    labels: NDArray[np.int64]
    columns: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, first: Sequences, second: Sequences, positions: Sequence[int]) -> _Stratum:
        rows = [*first, *second]
        labels = np.array([0] * len(first) + [1] * len(second), dtype=np.int64)
        return cls(labels, tuple(_classes([row[p] if p < len(row) else -1 for row in rows]) for p in positions))

    def g(self, labels: NDArray[np.int64]) -> float:
        return sum(_g(labels, column) for column in self.columns)


def _classes(tokens: Sequence[int]) -> NDArray[np.int64]:
    """Frequent tokens numbered from 1, all rare ones 0."""
    counts = Counter(tokens)
    numbers = {token: n for n, token in enumerate(sorted(t for t in counts if counts[t] >= _LEAST), start=1)}
    return np.array([numbers.get(token, 0) for token in tokens], dtype=np.int64)


def _g(labels: NDArray[np.int64], column: NDArray[np.int64]) -> float:
    """2 Σ O log(O/E) over the table of sample by class."""
    width = int(column.max(initial=0)) + 1
    table = np.bincount(labels * width + column, minlength=2 * width).reshape(2, width).astype(float)
    expected = table.sum(1, keepdims=True) * table.sum(0, keepdims=True) / table.sum()
    seen = table > 0
    return float(2 * (table[seen] * np.log(table[seen] / expected[seen])).sum())


@dataclass
class EValue:
    """Evidence against a known distribution of tokens given their context: a likelihood ratio that bets on what it saw.

    By Ville's inequality the chance that it ever reaches 1/alpha, were the distribution the true one, is at most alpha.
    """

    known: Mapping[Context, Mapping[int, float]]
    log: float = 0.0
    largest_log: float = 0.0
    observations: int = 0
    _seen: dict[Context, Counter[int]] = field(default_factory=dict)

    _STAKE = 0.5  # the share of each bet that follows the counts so far; the rest is the distribution itself
    _PRIOR = 20.0  # observations' worth of belief in the distribution before the counts speak

    def observe(self, context: Context, token: int) -> None:
        """Bet, then look. Contexts that are not known teach nothing; unlisted tokens count as one."""
        listed = self.known.get(context)
        if listed is None:
            return
        outcome = token if token in listed else -1
        p = listed[outcome] if outcome != -1 else _rest(listed.values())
        counts = self._seen.setdefault(context, Counter())
        guess = (counts[outcome] + self._PRIOR * p) / (counts.total() + self._PRIOR)
        counts[outcome] += 1
        self.observations += 1
        self.log += math.log((1 - self._STAKE) + self._STAKE * guess / p)
        self.largest_log = max(self.largest_log, self.log)

    def rejects(self, alpha: float) -> bool:
        """Whether it has ever been that large."""
        return self.largest_log >= -math.log(alpha)


def _rest(listed: Iterable[float]) -> float:
    """The probability of all unlisted tokens; a floor keeps rounding from making it zero or less."""
    return max(1.0 - math.fsum(listed), 1e-6)
