"""A model small enough to write in a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gguf
import numpy as np
from gguf.quants import quantize

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, FEED_FORWARD = 32, 64


def write_small_model(path: Path, seed: int = 0) -> None:
    """A model of one layer: enough for every kind of tensor that inflation treats differently."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_name("small")
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_token_list(["a", "b"])
    writer.add_add_bos_token(True)
    q8 = gguf.GGMLQuantizationType.Q8_0
    shapes = {
        "token_embd": (64, WIDTH),
        "blk.0.ffn_gate": (FEED_FORWARD, WIDTH),
        "blk.0.ffn_up": (FEED_FORWARD, WIDTH),
        "blk.0.ffn_down": (WIDTH, FEED_FORWARD),
    }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", quantize(rng.normal(size=shape).astype(np.float32), q8), raw_dtype=q8)
    writer.add_tensor("output_norm.weight", rng.normal(size=WIDTH).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
