"""From the evidence of a panel to the finding of one claim, with the cause of a change named."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

from pytest_specdec.baseline import Entry, StoredContrast
from pytest_specdec.baseline.entries import EntryKind
from pytest_specdec.measure.pair_guards import autocorrelated, blocks_apart, clocks_apart, noisy_session
from pytest_specdec.measure.question import exact_part
from pytest_specdec.measure.rows import lengths_apart, prompt_of, seen_for
from pytest_specdec.panels import Evidence
from pytest_specdec.records import (
    Cell,
    Estimate,
    Figure,
    FigureKind,
    Finding,
    Json,
    Reason,
    Status,
    Void,
)
from pytest_specdec.stats.contrast import Change, causes
from pytest_specdec.stats.decision import Decision, Outcome
from pytest_specdec.stats.robust import hodges_lehmann, ratio_of

__all__ = ["cycles_per_s", "finding_of", "ratio"]


def finding_of(evidence: Evidence) -> Finding:
    """The verdict's finding. A figure that a guard has voided decides nothing."""
    answer, expected = evidence.answer, evidence.expectation
    void = _void(evidence)
    details = _evidence(evidence)
    if void is not None:
        return Finding(
            Status.VOID, void.reason, _measured(evidence), expected.words, void.detail,
            "remove the cause and measure again; the generations stay in the run directory", details,
        )  # fmt: skip
    if answer.decision is None:
        return Finding(Status.PASS, Reason.HELD, _measured(evidence), expected.words, expected.remark, evidence=details)
    status, reason = _status(answer.decision, expected.entry)
    lines = [answer.decision.why, *_causes(evidence, status), expected.remark, _caveat(expected.entry, status)]
    detail = "\n".join(line for line in lines if line)
    if status is Status.PASS:
        detail = expected.remark
    remedy = "" if status is not Status.INCONCLUSIVE else "a larger --specdec-budget, or --specdec-resume with this run"
    return Finding(status, reason, _measured(evidence), expected.words, detail, remedy, details)


def ratio(evidence: Evidence) -> Estimate:
    """The contrast as it was measured, a ratio with its 95 % interval; NaN without pairs."""
    return ratio_of(hodges_lehmann([row.value for row in evidence.answer.rows]))


def cycles_per_s(cell: Cell) -> float:
    """Median over its valid generations; 0 without any."""
    rates = [
        1000 * g.cycles / g.timings.predicted_ms
        for g in cell.valid_for(FigureKind.SPEED)
        if g.cycles > 0 and g.timings.predicted_ms > 0
    ]
    return median(rates) if rates else 0.0


def _status(decision: Decision, entry: Entry | None) -> tuple[Status, Reason]:
    if decision.outcome is Outcome.PASS:
        return Status.PASS, Reason.HELD
    if decision.outcome is Outcome.FAIL:
        published = entry is not None and entry.kind is EntryKind.PUBLISHED
        return Status.FAIL, Reason.BELOW_FLOOR if published else Reason.SLOWER
    if decision.outcome is Outcome.VOID:
        return Status.VOID, Reason.ARITHMETIC
    return Status.INCONCLUSIVE, Reason.NOT_ENOUGH_EVIDENCE


def _void(evidence: Evidence) -> Void | None:
    """The guard that leaves nothing to decide on; None where there is enough valid evidence."""
    answer, measured = evidence.answer, evidence.measured
    cells = [seen_for(measured.cells[key], answer.question.figure) for key in sorted(answer.question.cells)]
    of_cell = next((void for cell in cells if (void := cell.void_for(FigureKind.SPEED))), None)
    void = of_cell or measured.void or _clocks_apart(evidence) or _lengths_apart(evidence)
    if void is not None:
        return void
    if answer.decision is not None and answer.decision.outcome not in (Outcome.PASS, Outcome.FAIL):
        most = _most_frequent_void(cells)
        if most is not None and len(answer.rows) < answer.question.rule.cap:
            return most
    if not answer.rows and any(cell.generations for cell in cells):
        return _most_frequent_void(cells) or Void(
            Reason.LENGTH_MISMATCH, frozenset({FigureKind.SPEED}), "no two sides have comparable generations"
        )
    return _of_residuals(evidence)


def _clocks_apart(evidence: Evidence) -> Void | None:
    cells, sides = evidence.measured.cells, evidence.answer.question.sides
    return next((void for side in sides if (void := clocks_apart(*(cells[key] for key in side)))), None)


def _lengths_apart(evidence: Evidence) -> Void | None:
    cells, question = evidence.measured.cells, evidence.answer.question
    found = (lengths_apart(cells[a], cells[b], question.figure, question.prompts) for a, b in question.sides)
    return next((void for void in found if void), None)


def _of_residuals(evidence: Evidence) -> Void | None:
    """Residuals of a noise that was measured must be as independent and as quiet as they were then."""
    answer = evidence.answer
    if not evidence.expectation.residuals or answer.decision is None:
        return None
    rule, decision = answer.question.rule, answer.decision
    used = list(answer.values[: decision.n])
    blocks = [row.block for row in answer.rows[: decision.n]]
    return (
        autocorrelated(used, blocks)
        or blocks_apart(used, blocks, rule.intraclass)
        or noisy_session(used, rule.sigma, decision.worth)
    )


def _most_frequent_void(cells: Sequence[Cell]) -> Void | None:
    found = [void for cell in cells for g in cell.generations for void in g.voids if FigureKind.SPEED in void.figures]
    if not found:
        return None
    reason, number = Counter(void.reason for void in found).most_common(1)[0]
    example = next(void for void in found if void.reason is reason)
    total = sum(len(cell.generations) for cell in cells)
    return Void(reason, example.figures, f"{number} of {total} generations, for example: {example.detail}")


def _measured(evidence: Evidence) -> str:
    rows, figure = evidence.answer.rows, evidence.answer.question.figure
    if not rows:
        return "no valid pair"
    estimate = ratio(evidence)
    words = f"×{estimate.value:.3f} ({estimate.low:.3f}–{estimate.high:.3f}, {len(rows)} pairs)"
    if figure is not Figure.THROUGHPUT:
        return words
    exact = math.exp(exact_part(rows))
    return f"{words} = ×{exact:.2f} tokens per cycle, ×{estimate.value / exact:.2f} cycles per second"


def _causes(evidence: Evidence, status: Status) -> list[str]:
    """What made it slower than its record: which side, and text or cost. Nothing to compare with, nothing to name."""
    entry = evidence.expectation.entry
    if status is not Status.FAIL or entry is None or entry.contrast is None:
        return []
    change = _change(evidence, entry.contrast)
    named = causes(change, tolerance=-math.log1p(-evidence.answer.question.rule.margin) / 2)
    parts = (
        f"tokens per cycle {math.expm1(change.tokens_per_cycle):+.1%}, its cycles per second "
        f"{math.expm1(change.cycles_per_s):+.1%}, those of the reference {math.expm1(change.base_cycles_per_s):+.1%}"
    )
    return [f"cause: {', '.join(named)}" if named else "cause: no single part", f"against the record: {parts}"]


def _change(evidence: Evidence, stored: StoredContrast) -> Change:
    rows = evidence.answer.rows
    recorded = [stored.exact_logs.get(prompt_of(row.prompt), row.exact) for row in rows]
    text = math.fsum(row.exact - before for row, before in zip(rows, recorded, strict=True)) / max(1, len(rows))
    reference, candidate = evidence.answer.question.sides[0]
    now = [cycles_per_s(evidence.measured.cells[key]) for key in (reference, candidate)]
    base, arm = (
        math.log(after / before) if after > 0 and before > 0 else 0.0
        for after, before in zip(now, stored.cycles_per_s, strict=True)
    )
    return Change(tokens_per_cycle=text, cycles_per_s=arm, base_cycles_per_s=base)


def _caveat(entry: Entry | None, status: Status) -> str:
    return f"caveat: {entry.caveat}" if entry is not None and entry.caveat and status is not Status.PASS else ""


def _evidence(evidence: Evidence) -> dict[str, Json]:
    answer, question = evidence.answer, evidence.answer.question
    estimate = ratio(evidence)
    found: dict[str, Json] = {
        "figure": question.figure.value,
        "workload": question.sides[0][1].workload if question.sides else "",
        "arm": " : ".join(f"{candidate.arm} / {reference.arm}" for reference, candidate in question.sides),
        "ratio": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "pairs": len(answer.rows),
        "rounds": evidence.measured.rounds,
        "tokens_per_cycle_ratio": math.exp(exact_part(answer.rows)),
        "sigma": question.rule.sigma,
        "intraclass": question.rule.intraclass,
        "margin": question.rule.margin,
        "cap": question.rule.cap,
        "cells": {str(key): _figures(evidence.measured.cells[key]) for key in sorted(question.cells)},
    }
    if answer.decision is not None:
        decision = answer.decision
        found |= {
            "decided_at": decision.n,
            "worth_pairs": decision.worth,
            "mean": decision.mean,
            "outcome": decision.outcome.value,
        }
    return found


def _figures(cell: Cell) -> dict[str, Json]:
    valid = cell.valid_for(FigureKind.SPEED)
    seconds = math.fsum(g.timings.predicted_ms for g in valid) / 1000
    tokens = sum(max(0, g.timings.predicted_n - 1) for g in valid)
    return {
        "generations": len(cell.generations),
        "valid": len(valid),
        "tokens_per_s": tokens / seconds if seconds > 0 else None,
        "cycles_per_s": cycles_per_s(cell),
        "tokens_per_cycle": cell.tokens_per_cycle,
        "acceptance": cell.acceptance,
    }
