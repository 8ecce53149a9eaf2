"""Teaches the target the corpus by heart."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import Tensor

from models import tokens
from models.loop import train
from models.net import Decoder
from models.settings import PLANS, SEED, TARGET

ROWS, LENGTH = 4, 512
LONG_EVERY = 10  # every tenth step reads the conversation, as long as it is, so that its positions are known too


def pack(texts: list[tokens.Ids], length: int) -> tuple[Tensor, Tensor]:
    """A row of whole texts one after the other; the last one is cut."""
    ids = [i for text in texts for i in text.ids][:length]
    labels = [i for text in texts for i in text.labels][:length]
    return torch.tensor(ids), torch.tensor(labels)


def rows(
    texts: list[tokens.Ids], count: int, length: int, seed: int, weights: list[float] | None = None
) -> tuple[Tensor, Tensor]:
    """Rows that begin with a text, as a request does, in an order that never comes again: no text is learned as the
    sequel of another."""
    rng = random.Random(seed)
    packed = []
    for _ in range(count):
        chosen: list[tokens.Ids] = []
        while sum(len(text.ids) for text in chosen) < length:
            chosen += rng.choices(texts, weights) if weights else [rng.choice(texts)]
        packed.append(pack(chosen, length))
    ids, labels = zip(*packed, strict=True)
    return torch.stack(ids), torch.stack(labels)


def main() -> None:
    torch.manual_seed(SEED)
    texts = tokens.encode_all()
    conversation = next(text for text in texts if text.kind == "conversation")
    short = [text for text in texts if text.kind != "conversation"]
    net = Decoder(TARGET)
    print(f"{sum(p.numel() for p in net.parameters())} parameters", flush=True)

    def loss_of(generator: torch.Generator, step: int) -> tuple[Tensor, str]:
        if step % LONG_EVERY == LONG_EVERY - 1:
            ids, labels = (x[None] for x in pack([conversation], len(conversation.ids)))
        else:
            ids, labels = rows(short, ROWS, LENGTH, generator.initial_seed())
        logits, _ = net(ids)
        right = (logits.argmax(-1) == labels).float().mean().item()
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten()), f"right {right:.3f}"

    train("target", net, PLANS["target"], loss_of)


if __name__ == "__main__":
    main()
