"""One training loop for every member: a fixed seed for each step, and a checkpoint from which a stopped run goes on."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from models.settings import BUILD, HALF, SEED, Plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SAVED_EVERY, TOLD_EVERY = 100, 25
WARM_UP = 30

# On two busy cores, two threads that wait for each other took four times as long as one.
torch.set_num_threads(1)


def weights_of(name: str) -> Path:
    return BUILD / f"{name}.pt"


def optimisers(net: nn.Module, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the blocks, which learns by heart in about half the steps; AdamW for all else."""
    inner = [weight for name, weight in net.named_parameters() if weight.dim() == 2 and name.startswith("blocks.")]
    known = {id(weight) for weight in inner}
    other = [weight for weight in net.parameters() if id(weight) not in known]
    return [
        torch.optim.Muon(inner, lr=rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(other, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def train(name: str, net: nn.Module, plan: Plan, loss_of: Callable[[torch.Generator, int], tuple[Tensor, str]]) -> None:
    """Train ``net`` and leave its weights in ``BUILD``.

    ``loss_of`` gets the step's own generator and number, and returns the loss with a word on how it goes.
    """
    checkpoint = BUILD / f"{name}.checkpoint.pt"
    both = optimisers(net, plan.rate)
    first, spent = 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        net.load_state_dict(state["net"])
        for optimiser, kept in zip(both, state["optimisers"], strict=True):
            optimiser.load_state_dict(kept)
        first, spent = state["step"], state["seconds"]
        print(f"{name}: going on from step {first}", flush=True)
    began = time.monotonic() - spent
    for step in range(first, plan.steps):
        cosine = 0.5 * (1 + math.cos(math.pi * step / plan.steps))
        for group in both[0].param_groups + both[1].param_groups:
            group["lr"] = plan.rate * min(1, (step + 1) / WARM_UP) * (0.98 * cosine + 0.02)
        with torch.autocast("cpu", torch.bfloat16, enabled=HALF):
            loss, word = loss_of(torch.Generator().manual_seed(SEED * 1_000_003 + step), step)
        net.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for optimiser in both:
            optimiser.step()
        if (step + 1) % TOLD_EVERY == 0:
            print(f"{name} {step + 1}: loss {loss.item():.3f} {word} {time.monotonic() - began:.0f} s", flush=True)
        if (step + 1) % SAVED_EVERY == 0:
            state = {"net": net.state_dict(), "optimisers": [optimiser.state_dict() for optimiser in both]}
            write(checkpoint, state | {"step": step + 1, "seconds": time.monotonic() - began})
    write(weights_of(name), {"net": net.state_dict(), "steps": plan.steps, "seconds": round(time.monotonic() - began)})
    checkpoint.unlink(missing_ok=True)


def write(path: Path, content: dict[str, object]) -> None:
    """So that a stop in the middle leaves the old file."""
    partial = path.with_suffix(".partial")
    torch.save(content, partial)
    partial.replace(path)
