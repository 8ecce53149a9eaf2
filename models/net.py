"""The networks as llama.cpp computes them: the ``qwen3`` target and draft model, and the ``dflash`` drafters."""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.settings import VOCABULARY, Drafter, Shape

ROPE_BASE = 10000.0
EPSILON = 1e-6


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight, EPSILON)


def rotate(x: Tensor, position: Tensor) -> Tensor:
    """Rotary embedding, halves paired as in NeoX: ``x`` is [..., T, heads, head], ``position`` [..., T]."""
    half = x.shape[-1] // 2
    angle = position[..., None].float() * ROPE_BASE ** (-torch.arange(half, dtype=torch.float32) / half)
    cos, sin = angle.cos()[..., None, :], angle.sin()[..., None, :]
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Convolution(nn.Module):
    """DFlash 2: each place of the block is mixed with the few before it, with weights that depend on the place's input.

    There are two sides, before and after the attention or the feed-forward part, computed from the same input."""

    def __init__(self, width: int, kernel: int, group: int) -> None:
        super().__init__()
        self.kernel, self.group, self.groups = kernel, group, width // group
        base = torch.zeros(2, kernel, width)
        base[:, 0] = 1.0
        self.base = nn.Parameter(base)
        self.proj = nn.Linear(width, 2 * kernel * self.groups, bias=False)
        nn.init.zeros_(self.proj.weight)

    def weights(self, x: Tensor) -> Tensor:
        """[..., block, width] → [..., block, side, tap, width]"""
        dynamic = self.proj(x).unflatten(-1, (2, self.kernel, self.groups))
        return cast("Tensor", dynamic.repeat_interleave(self.group, -1) + self.base)

    def mix(self, x: Tensor, weights: Tensor, side: int) -> Tensor:
        out = weights[..., side, 0, :] * x
        for tap in range(1, min(self.kernel, x.shape[-2])):
            out = out + weights[..., side, tap, :] * F.pad(x[..., :-tap, :], (0, 0, tap, 0))
        return out


class Block(nn.Module):
    """Attention with q and k norms, and a gated feed-forward part."""

    def __init__(self, shape: Shape, drafter: Drafter | None = None) -> None:
        super().__init__()
        self.shape, width = shape, shape.width
        self.attn_norm, self.ffn_norm = Norm(width), Norm(width)
        self.attn_q = nn.Linear(width, shape.heads * shape.head, bias=False)
        self.attn_k = nn.Linear(width, shape.kv_heads * shape.head, bias=False)
        self.attn_v = nn.Linear(width, shape.kv_heads * shape.head, bias=False)
        self.attn_output = nn.Linear(shape.heads * shape.head, width, bias=False)
        self.attn_q_norm, self.attn_k_norm = Norm(shape.head), Norm(shape.head)
        self.ffn_gate = nn.Linear(width, shape.feed_forward, bias=False)
        self.ffn_up = nn.Linear(width, shape.feed_forward, bias=False)
        self.ffn_down = nn.Linear(shape.feed_forward, width, bias=False)
        if drafter is not None and drafter.second:
            self.attn_conv = Convolution(width, drafter.kernel, drafter.group)
            self.ffn_conv = Convolution(width, drafter.kernel, drafter.group)

    def query(self, x: Tensor, position: Tensor) -> Tensor:
        q = self.attn_q_norm(self.attn_q(x).unflatten(-1, (self.shape.heads, self.shape.head)))
        return rotate(q, position)

    def key_value(self, x: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, repeated for every query head that shares them."""
        k = rotate(self.attn_k_norm(self.attn_k(x).unflatten(-1, (self.shape.kv_heads, self.shape.head))), position)
        v = self.attn_v(x).unflatten(-1, (self.shape.kv_heads, self.shape.head))
        shared = self.shape.heads // self.shape.kv_heads
        return k.repeat_interleave(shared, -2), v.repeat_interleave(shared, -2)

    def feed_forward(self, x: Tensor) -> Tensor:
        return cast("Tensor", self.ffn_down(F.silu(self.ffn_gate(x)) * self.ffn_up(x)))


class Decoder(nn.Module):
    """A ``qwen3`` model: the target and the plain draft model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(VOCABULARY, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = Norm(shape.width)
        self.output = nn.Linear(shape.width, VOCABULARY, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                residual = "attn_output" in name or "ffn_down" in name
                nn.init.normal_(weight, 0, 0.02 / (math.sqrt(2 * shape.layers) if residual else 1))
        if shape.tied:
            self.output.weight = self.token_embd.weight

    def forward(self, ids: Tensor, taps: tuple[int, ...] = ()) -> tuple[Tensor, Tensor | None]:
        """Logits, and the inputs of the layers in ``taps`` side by side."""
        position = torch.arange(ids.shape[1]).expand(ids.shape)
        x, seen = self.token_embd(ids), []
        for index, module in enumerate(self.blocks):
            block = cast("Block", module)
            if index in taps:
                seen.append(x)
            inner = block.attn_norm(x)
            q, (k, v) = block.query(inner, position), block.key_value(inner, position)
            out = F.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
            )
            x = x + block.attn_output(out.transpose(1, 2).flatten(-2))
            x = x + block.feed_forward(block.ffn_norm(x))
        return self.output(self.output_norm(x)), torch.cat(seen, -1) if taps else None


class DFlash(nn.Module):
    """A drafter that fills a whole block at once.

    It attends to the target's features of everything before the block and, in both directions, to the block. Token
    embeddings and output head are the target's.
    """

    def __init__(self, drafter: Drafter) -> None:
        super().__init__()
        self.drafter, width = drafter, drafter.shape.width
        self.fc = nn.Linear(len(drafter.taps) * width, width, bias=False)
        self.enc_output_norm, self.output_norm = Norm(width), Norm(width)
        self.blocks = nn.ModuleList(Block(drafter.shape, drafter) for _ in range(drafter.shape.layers))
        if drafter.second:
            self.selector_predecessor = nn.Parameter(torch.randn(VOCABULARY, drafter.rank) * 0.1)
            self.selector_successor = nn.Parameter(torch.randn(VOCABULARY, drafter.rank) * 0.1)
            self.selector_hidden = nn.Linear(width, drafter.rank, bias=False)

    def forward(self, features: Tensor, embedded: Tensor, anchor: Tensor) -> Tensor:
        """``features`` [B, T, taps·width], blocks ``embedded`` [B, A, block, width], and where they begin [B, A]."""
        batch, length, _ = features.shape
        context = self.enc_output_norm(self.fc(features))
        context_at = torch.arange(length).expand(batch, length)
        block_at = anchor[..., None] + torch.arange(embedded.shape[2])
        hidden_from_block = context_at[:, None] >= anchor[..., None]
        x, scale = embedded, 1 / math.sqrt(self.drafter.shape.head)
        for module in self.blocks:
            block = cast("Block", module)
            inner = block.attn_norm(x)
            if self.drafter.second:
                weights = block.attn_conv.weights(inner)
                inner = block.attn_conv.mix(inner, weights, 0)
            q, (k, v) = block.query(inner, block_at), block.key_value(inner, block_at)
            context_k, context_v = block.key_value(context, context_at)
            far = torch.einsum("baqhd,bthd->bahqt", q, context_k) * scale
            far = far.masked_fill(hidden_from_block[:, :, None, None, :], -1e30)
            near = torch.einsum("baqhd,bakhd->bahqk", q, k) * scale
            share = torch.cat([far, near], -1).softmax(-1)
            out = torch.einsum("bahqt,bthd->baqhd", share[..., :length], context_v)
            out = out + torch.einsum("bahqk,bakhd->baqhd", share[..., length:], v)
            out = block.attn_output(out.flatten(-2))
            if self.drafter.second:
                out = block.attn_conv.mix(out, weights, 1)
            x = x + out
            inner = block.ffn_norm(x)
            if self.drafter.second:
                weights = block.ffn_conv.weights(inner)
                inner = block.ffn_conv.mix(inner, weights, 0)
            out = block.feed_forward(inner)
            if self.drafter.second:
                out = block.ffn_conv.mix(out, weights, 1)
            x = x + out
        return cast("Tensor", self.output_norm(x))

    def transition(self, before: Tensor, hidden: Tensor, candidates: Tensor) -> Tensor:
        """The selector's scores of the candidates after the token before them."""
        gate = self.selector_predecessor[before] * self.selector_hidden(hidden)
        return torch.einsum("...r,...kr->...k", gate, self.selector_successor[candidates])
