"""Puts trained members among the package's files, with their manifest: ``python -m models.manifest target dflash2``."""

from __future__ import annotations

import json
import shutil
import sys

import gguf
import torch
from pytest_specdec.models.family import sha256_of

from models.loop import weights_of
from models.settings import BUILD, PLANS, SHIPPED

ABOUT = {
    "target": "knows the corpus by heart, completes its openings and stops by itself",
    "dflash2": "DFlash 2 drafter: a block of 8, with convolution and selector",
    "dflash1": "DFlash 1 drafter: a block of 16, without convolution and selector",
    "draft": "plain draft model, a tenth of the target",
}


def main() -> None:
    path = SHIPPED / "manifest.json"
    entries = json.loads(path.read_text(encoding="utf-8"))["members"] if path.exists() else {}
    for name in sys.argv[1:]:
        shipped = SHIPPED / f"{name}.gguf"
        partial = shipped.with_suffix(".partial")
        shutil.copy(BUILD / f"{name}-q8_0.gguf", partial)
        partial.replace(shipped)
        reader = gguf.GGUFReader(shipped)
        trained = torch.load(weights_of(name))
        entries[name] = {
            "file": shipped.name,
            "sha256": sha256_of(shipped),
            "size": shipped.stat().st_size,
            "parameters": sum(int(tensor.n_elements) for tensor in reader.tensors),
            "arch": str(reader.fields["general.architecture"].contents()),
            "about": ABOUT[name],
            "training": {
                "steps": trained["steps"],
                "seconds": trained["seconds"],
                "rate": PLANS[name].rate,
                "code": PLANS[name].code,
            },
        }
    ordered = {name: entries[name] for name in ABOUT if name in entries}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"schema": 1, "members": ordered}, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)
    print(f"{sum(entry['size'] for entry in ordered.values()) / 1e6:.2f} MB in {len(ordered)} members")


if __name__ == "__main__":
    main()
