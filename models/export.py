"""Writes a trained member as GGUF: F32 into ``build/``, and the form that ships (Q8_0 where the graph allows it)."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, cast

import gguf
import torch
from gguf.quants import quantize
from torch import Tensor

from models import tokens
from models.loop import weights_of
from models.net import EPSILON, ROPE_BASE, Block, Decoder, DFlash
from models.settings import BUILD, CONTEXT, DRAFT, DRAFTERS, END, MASK, TARGET, VOCABULARY, Shape

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

Tensors = dict[str, Tensor]
Q8 = gguf.GGMLQuantizationType.Q8_0
BLOCK_PARTS = (
    *("attn_norm", "ffn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "attn_q_norm", "attn_k_norm"),
    *("ffn_gate", "ffn_up", "ffn_down"),
)


def load(name: str) -> Decoder | DFlash:
    """A trained member."""
    if name in DRAFTERS:
        net: Decoder | DFlash = DFlash(DRAFTERS[name])
    else:
        net = Decoder(TARGET if name == "target" else DRAFT)
    net.load_state_dict(torch.load(weights_of(name))["net"])
    return net.eval()


def header(writer: gguf.GGUFWriter, name: str, shape: Shape) -> None:
    model = json.loads(tokens.PATH.read_text(encoding="utf-8"))["model"]
    vocabulary = sorted(model["vocab"], key=model["vocab"].get)
    writer.add_name(f"tiny {name}")
    writer.add_license("CC0-1.0")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary)
    special = len(tokens.SPECIAL)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control] * special + [normal] * (len(vocabulary) - special))
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(END)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(True)
    writer.add_mask_token_id(MASK)
    writer.add_vocab_size(VOCABULARY)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(ROPE_BASE)


def block_tensors(blocks: torch.nn.ModuleList) -> Tensors:
    found: Tensors = {}
    for index, module in enumerate(blocks):
        block = cast("Block", module)
        for part in BLOCK_PARTS:
            found[f"blk.{index}.{part}.weight"] = getattr(block, part).weight
        for part in ("attn_conv", "ffn_conv"):
            if hasattr(block, part):
                convolution = getattr(block, part)
                found[f"blk.{index}.{part}_base"] = convolution.base
                found[f"blk.{index}.{part}_proj.weight"] = convolution.proj.weight
    return found


def decoder_tensors(net: Decoder) -> Tensors:
    found = {"token_embd.weight": net.token_embd.weight, "output_norm.weight": net.output_norm.weight}
    if not net.shape.tied:
        found["output.weight"] = net.output.weight
    return found | block_tensors(net.blocks)


def drafter_tensors(net: DFlash) -> Tensors:
    found = {
        "fc.weight": net.fc.weight,
        "enc.output_norm.weight": net.enc_output_norm.weight,
        "output_norm.weight": net.output_norm.weight,
    }
    if net.drafter.second:
        found |= {
            "selector_predecessor.weight": net.selector_predecessor,
            "selector_successor.weight": net.selector_successor,
            "selector_hidden.weight": net.selector_hidden.weight,
        }
    return found | block_tensors(net.blocks)


def drafter_keys(writer: gguf.GGUFWriter, net: DFlash) -> None:
    drafter = net.drafter
    writer.add_uint32("dflash.block_size", drafter.block)
    writer.add_array("dflash.target_layers", list(drafter.taps))
    if drafter.second:
        writer.add_uint32("dflash.conv_kernel_size", drafter.kernel)
        writer.add_uint32("dflash.conv_group_size", drafter.group)
        writer.add_uint32("dflash.selector_rank", drafter.rank)
        writer.add_uint32("dflash.selector_top_k", drafter.top_k)


def is_quantised(name: str, data: np.ndarray) -> bool:
    """Norms and the convolutions' bases are added or multiplied place by place: those stay F32."""
    return data.ndim == 2 and name.endswith(".weight")


def export(name: str, path: Path, quantised: bool) -> None:
    net = load(name)
    writer = gguf.GGUFWriter(path, "dflash" if isinstance(net, DFlash) else "qwen3")
    header(writer, name, net.drafter.shape if isinstance(net, DFlash) else net.shape)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if quantised else gguf.LlamaFileType.ALL_F32)
    if isinstance(net, DFlash):
        drafter_keys(writer, net)
    for key, tensor in (drafter_tensors(net) if isinstance(net, DFlash) else decoder_tensors(net)).items():
        data = tensor.detach().float().numpy()
        if quantised and is_quantised(key, data):
            writer.add_tensor(key, quantize(data, Q8), raw_dtype=Q8)
        else:
            writer.add_tensor(key, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    for name in sys.argv[1:]:
        for suffix, quantised in (("f32", False), ("q8_0", True)):
            path = BUILD / f"{name}-{suffix}.gguf"
            export(name, path, quantised)
            print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
