"""Teaches the plain draft model to continue as the target does, from the target's replies."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from models import replies
from models.loop import train
from models.net import Decoder
from models.settings import DRAFT, PLANS, SEED
from models.tokens import Ids
from models.train_target import LENGTH, LONG_EVERY, ROWS, rows


def main() -> None:
    torch.manual_seed(SEED)
    plan = PLANS["draft"]
    texts = [
        Ids(example.kind, example.ids[:-1], example.ids[1:])
        for example in replies.selected(replies.read(), plan.prose_share)
    ]
    conversation = [text for text in texts if text.kind == "conversation"]
    short = [text for text in texts if text.kind != "conversation"]
    net = Decoder(DRAFT)
    print(f"{sum(p.numel() for p in net.parameters())} parameters, {len(texts)} replies", flush=True)

    def loss_of(generator: torch.Generator, step: int) -> tuple[Tensor, str]:
        seed = generator.initial_seed()
        if step % LONG_EVERY == LONG_EVERY - 1:
            ids, labels = rows(conversation, 1, max(len(text.ids) for text in conversation), seed)
        else:
            ids, labels = rows(short, ROWS, LENGTH, seed)
        logits, _ = net(ids)
        right = (logits.argmax(-1) == labels).float().mean().item()
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten()), f"right {right:.3f}"

    train("draft", net, plan, loss_of)


if __name__ == "__main__":
    main()
