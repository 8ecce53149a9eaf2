"""A/A: what two measurements of one and the same thing differ by, and how a stored value inherits that.

All in natural-log units of one contrast. A *session* is one run on one machine: its pairs share whatever the server's
start, the clocks and the day have done to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.errors import BaselineError
from pytest_specdec.stats.blocks import by_block, intraclass_correlation, worth
from pytest_specdec.stats.decision import CLIP_SIGMAS
from pytest_specdec.stats.rule import Rule, StoredError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "LEAST_AA_PAIRS",
    "LEAST_SESSIONS",
    "Calibration",
    "calibrate",
    "clipped_sigma",
    "lag1",
    "pool",
    "require_resolvable",
]

LEAST_AA_PAIRS = 20  # sigma is then known to about 16 %
LEAST_SESSIONS = 5  # fewer say nothing about how sessions differ

CLIP_ROUNDS = 20  # the clipped spread settles in a handful


@dataclass(frozen=True, slots=True)
class Calibration:
    """What A/A measured of one contrast.

    ``sigma``: spread of a session's pairs, hiccups clipped as the decision clips them. ``mean`` and ``mean_se``: of all
    sessions; A/A should have a mean of 0. ``lag1``: correlation of consecutive pairs within a session. ``intraclass``:
    that of the pairs of one block, None where blocks were of one pair. ``tau``: spread between sessions, with
    ``tau_dof`` degrees of freedom; NaN and 0 when there were fewer than five.
    """

    sigma: float
    pairs: int
    sessions: int
    mean: float
    mean_se: float
    lag1: float
    tau: float
    tau_dof: int
    intraclass: float | None = None

    def stored_error(self, worth: float, sessions: int = 1) -> StoredError:
        """The error of a mean that was stored from pairs worth so many independent ones, out of ``sessions`` sessions.

        ``se^2 = sigma^2/worth + tau^2/sessions``: the sessions behind the stored value were sessions, too.
        """
        se = math.sqrt(self.sigma**2 / worth + self.tau**2 / sessions)
        return StoredError(se=se, tau=self.tau, dof=self.tau_dof)


def calibrate(sessions: Sequence[Sequence[float]], blocks: Sequence[Sequence[int]] | None = None) -> Calibration:
    """Sigma, mean, correlations and tau from A/A log ratios, each session in the order measured.

    ``tau^2 = max(0, variance of the session means - mean of sigma^2/worth)``: the moment estimator of a one-way layout
    with random effects (Searle, Casella and McCulloch, *Variance Components*, 1992, chapter 3). ``blocks`` says of each
    pair which servers it shares with others, by default none. Raises BaselineError for fewer than 20 pairs or a figure
    that is not finite.
    """
    rows = [np.asarray(session, dtype=np.float64) for session in sessions if len(session)]
    shared = (
        [list(numbers) for numbers in blocks if len(numbers)] if blocks else [list(range(len(row))) for row in rows]
    )
    everything = np.concatenate([np.empty(0), *rows])
    _require_evidence(everything)
    rough = clipped_sigma(np.concatenate([row - np.median(row) for row in rows]), lost=len(rows))
    means = np.array([_clipped_mean(row, rough) for row in rows])
    centred = [row - mean for row, mean in zip(rows, means, strict=True)]
    sigma = clipped_sigma(np.concatenate(centred), lost=len(rows))
    intraclass = _intraclass(rows, centred, shared)
    within = float(np.mean([sigma**2 / worth(numbers, intraclass or 0.0) for numbers in shared]))
    enough = len(rows) >= LEAST_SESSIONS
    between = float(np.var(means, ddof=1)) if enough else math.nan
    return Calibration(
        sigma=sigma,
        pairs=len(everything),
        sessions=len(rows),
        mean=float(np.mean(means)),
        mean_se=math.sqrt((between if enough else within) / len(rows)),
        lag1=lag1(centred),
        tau=math.sqrt(max(0.0, between - within)) if enough else math.nan,
        tau_dof=len(rows) - 1 if enough else 0,
        intraclass=intraclass,
    )


def _intraclass(
    rows: Sequence[NDArray[np.float64]], centred: Sequence[NDArray[np.float64]], blocks: Sequence[Sequence[int]]
) -> float | None:
    """Of all blocks together. A session of one block has no other mean than that block's, so none is taken out."""
    alone = any(len(set(numbers)) == 1 for numbers in blocks)
    chosen = rows if alone else centred
    groups = [group for row, numbers in zip(chosen, blocks, strict=True) for group in by_block(row.tolist(), numbers)]
    return intraclass_correlation(groups, lost=1 if alone else len(rows))


def pool(calibrations: Sequence[Calibration]) -> tuple[float, int]:
    """One tau, and its degrees of freedom, for contrasts of one machine that share what differs between sessions.

    Root mean square weighted by degrees of freedom. Worth doing: Student's quantile for one claim in forty is 10.3 at
    4 degrees of freedom, 3.9 at 40.
    """
    known = [c for c in calibrations if c.tau_dof]
    dof = sum(c.tau_dof for c in known)
    return (math.sqrt(sum(c.tau_dof * c.tau**2 for c in known) / dof), dof) if dof else (math.nan, 0)


def clipped_sigma(residuals: NDArray[np.float64], lost: int = 1) -> float:
    """Standard deviation of ``residuals`` (pairs,) about 0, clipped at three times itself as the decision clips them.

    ``lost`` is the number of means that were taken out of them. Starts from the median absolute deviation, so that a
    few hiccups cannot hide each other, and repeats until it stands.
    """
    spread = 1.4826 * float(np.median(np.abs(residuals))) or float(np.sqrt(np.mean(residuals**2)))
    for _ in range(CLIP_ROUNDS):
        limit = CLIP_SIGMAS * spread
        again = math.sqrt(float(np.sum(np.clip(residuals, -limit, limit) ** 2)) / max(1, len(residuals) - lost))
        if math.isclose(again, spread, rel_tol=1e-6):
            break
        spread = again
    return spread


def lag1(sessions: Sequence[NDArray[np.float64]]) -> float:
    """Correlation of consecutive residuals, over pairs of neighbours within a session; 0 when nothing varies."""
    products = sum(float(np.sum(row[1:] * row[:-1])) for row in sessions)
    squares = sum(float(np.sum(row**2)) for row in sessions)
    return products / squares if squares else 0.0


def require_resolvable(rule: Rule, entry: str) -> None:
    """Refuse to record an entry whose own error leaves too little of the margin; raises BaselineError."""
    if not rule.margin_too_small:
        return
    error = rule.error or StoredError(0.0, 0.0)
    reach = rule.pass_reach + rule.fail_reach
    raise BaselineError(
        tried=f"record {entry} with a margin of {rule.margin:.1%}",
        why=f"its own error of {error.total:.2%} reaches {reach:.2%}, more than half of the margin",
        remedy="record more pairs, calibrate over more sessions (ten or more), or widen the margin of this entry",
    )


def _clipped_mean(row: NDArray[np.float64], sigma: float) -> float:
    centre = float(np.median(row))
    return centre + float(np.mean(np.clip(row - centre, -CLIP_SIGMAS * sigma, CLIP_SIGMAS * sigma)))


def _require_evidence(values: NDArray[np.float64]) -> None:
    if len(values) < LEAST_AA_PAIRS:
        raise BaselineError(
            tried=f"calibrate from {len(values)} A/A pairs",
            why=f"sigma needs at least {LEAST_AA_PAIRS}",
            remedy="run --specdec-calibrate again with a larger --specdec-budget",
        )
    if not np.isfinite(values).all():
        raise BaselineError(
            tried="calibrate from A/A pairs",
            why="a log ratio is not finite: some generation has no decode time or no cycle",
            remedy="look at the voided generations of the calibration run: python -m pytest_specdec report RUN",
        )
