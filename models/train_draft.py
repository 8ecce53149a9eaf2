"""Teaches the plain draft model to continue as the target does, from the target's replies."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from models import replies
from models.loop import train
from models.net import Decoder
from models.replies import Example
from models.settings import DRAFT, PLANS, SEED
from models.tokens import Ids
from models.train_target import LENGTH, LONG_EVERY, ROWS, rows


def as_ids(example: Example) -> Ids:
    return Ids(example.kind, example.ids[:-1], example.ids[1:])


def main() -> None:
    torch.manual_seed(SEED)
    plan = PLANS["draft"]
    examples, conversation = replies.parted(replies.read())
    long, short = [as_ids(conversation)], [as_ids(example) for example in examples]
    weights = replies.weights(examples, plan.code)
    net = Decoder(DRAFT)
    print(
        f"{sum(p.numel() for p in net.parameters())} parameters, {len(examples)} replies and a conversation", flush=True
    )

    def loss_of(generator: torch.Generator, step: int) -> tuple[Tensor, str]:
        seed = generator.initial_seed()
        if step % LONG_EVERY == LONG_EVERY - 1:
            ids, labels = rows(long, 1, len(conversation.ids), seed)
        else:
            ids, labels = rows(short, ROWS, LENGTH, seed, weights)
        logits, _ = net(ids)
        right = (logits.argmax(-1) == labels).float().mean().item()
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten()), f"right {right:.3f}"

    train("draft", net, plan, loss_of)


if __name__ == "__main__":
    main()
