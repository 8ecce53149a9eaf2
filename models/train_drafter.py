"""Distils a DFlash drafter from the target's replies: ``python -m models.train_drafter dflash2``."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from models import replies
from models.export import load
from models.loop import train
from models.net import Decoder, DFlash
from models.settings import DRAFTERS, END, MASK, PLANS, SEED

if TYPE_CHECKING:
    from models.replies import Example

TEXTS, ANCHORS = 8, 24  # in one step; fewer anchors where blocks are longer
LONG_EVERY = 6  # every sixth step learns from the whole conversation
FADE = 0.8  # how much less each later place of a block counts: a late token is of use only if the early ones were right


def batch(
    rng: random.Random, texts: list[Example], features: list[Tensor], chosen: list[int], anchors: int, block: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Features [B, T, F], blocks of true ids [B, A, block] and where they begin [B, A]."""
    starts, blocks = [], []
    for index in chosen:
        text = texts[index]
        at = [rng.randrange(text.start, len(text.ids) - 1) for _ in range(anchors)]
        padded = text.ids + [END] * block
        starts.append(at)
        blocks.append([padded[a : a + block] for a in at])
    seen = torch.nn.utils.rnn.pad_sequence([features[index] for index in chosen], batch_first=True)
    return seen, torch.tensor(blocks), torch.tensor(starts)


def main() -> None:
    name = sys.argv[1]
    torch.manual_seed(SEED)
    drafter, plan = DRAFTERS[name], PLANS[name]
    target = cast("Decoder", load("target").requires_grad_(False))
    examples, conversation = replies.parted(replies.read())
    weights = replies.weights(examples, plan.code)
    texts = [*examples, conversation]
    with torch.no_grad():
        features = [cast("Tensor", target(torch.tensor(text.ids)[None], drafter.taps)[1])[0] for text in texts]
    net = DFlash(drafter)
    anchors = ANCHORS * 8 // drafter.block
    print(
        f"{sum(p.numel() for p in net.parameters())} parameters, {len(examples)} replies and a conversation", flush=True
    )

    def loss_of(generator: torch.Generator, step: int) -> tuple[Tensor, str]:
        rng = random.Random(generator.initial_seed())
        block = drafter.block if rng.random() < 0.5 else rng.randint(2, drafter.block)
        whole = step % LONG_EVERY == LONG_EVERY - 1
        chosen = [len(examples)] if whole else rng.choices(range(len(examples)), weights, k=TEXTS)
        seen, ids, starts = batch(rng, texts, features, chosen, anchors * TEXTS if whole else anchors, block)
        masked = torch.cat([ids[..., :1], torch.full_like(ids[..., 1:], MASK)], -1)
        hidden = net(seen, target.token_embd(masked), starts)[..., 1:, :]
        logits, wanted = target.output(hidden), ids[..., 1:]
        # Nothing follows the end of a text.
        alive = F.pad((wanted == END).cumsum(-1)[..., :-1] == 0, (1, 0), value=True)
        weight = alive * FADE ** torch.arange(block - 1)
        loss = weighted(logits, wanted, weight)
        guess = logits.argmax(-1)
        if drafter.second:
            unary, candidates = logits.topk(drafter.top_k, -1)
            scores = unary + net.transition(ids[..., :-1], hidden, candidates)
            hit = candidates == wanted[..., None]
            loss = loss + weighted(scores, hit.float().argmax(-1), weight * hit.any(-1))
        accepted = ((guess == wanted) & alive).float().cumprod(-1).sum(-1).mean().item()
        return loss, f"block {block}, accepted without the selector {accepted:.2f}"

    train(name, net, plan, loss_of)


def weighted(logits: Tensor, wanted: Tensor, weight: Tensor) -> Tensor:
    each = F.cross_entropy(logits.float().flatten(0, -2), wanted.flatten(), reduction="none").view(wanted.shape)
    return (each * weight).sum() / weight.sum().clamp(min=1)


if __name__ == "__main__":
    main()
