"""What a real llama-server does with the members: tokens per cycle, acceptance, losslessness, loops.

``LLAMA_SERVER=… python -m models.measure [ARM …]`` writes ``card.json`` beside the members when it measures every arm,
and prints what it measured in any case. Everything is greedy, with one thread and one request at a time.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_specdec.models.family import members

from models.serve import complete, server
from models.settings import SHIPPED, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

MOST = 640
TABLES = [
    *("--spec-ngram-map-k4v-size-n", "3", "--spec-ngram-map-k4v-size-m", "7", "--spec-ngram-map-k4v-min-hits", "1"),
    *("--spec-ngram-mod-n-match", "4", "--spec-ngram-mod-n-min", "3", "--spec-ngram-mod-n-max", "7"),
]
WORKLOAD_NAMES = ("code", "prose", "session", "refrain", "mixed")


@dataclass
class Tally:
    """What the replies to one workload add up to."""

    replies: list[dict[str, Any]] = field(default_factory=list)

    def row(self, base: Tally) -> dict[str, Any]:
        timings = [reply["timings"] for reply in self.replies]
        after_first = sum(t["predicted_n"] - 1 for t in timings)
        drafted = sum(t.get("draft_n", 0) for t in timings)
        accepted = sum(t.get("draft_n_accepted", 0) for t in timings)
        same = sum(a["tokens"] == b["tokens"] for a, b in zip(self.replies, base.replies, strict=True))
        return {
            "prompts": len(self.replies),
            "tokens": after_first + len(self.replies),
            "drafted": drafted,
            "accepted": accepted,
            "acceptance": round(accepted / drafted, 4) if drafted else 0.0,
            "tokens_per_cycle": round(after_first / max(1, after_first - accepted), 3),
            "ended": sum(reply["stop_type"] == "eos" for reply in self.replies),
            "looping": sum(loops(reply["tokens"]) for reply in self.replies),
            "same_as_base": same,
        }


def loops(tokens: list[int], size: int = 12, most: float = 0.3) -> bool:
    """Whether the reply repeats itself: the share of its 12-grams that occur more than once."""
    grams = Counter(tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1))
    total = sum(grams.values())
    return total > 0 and sum(count - 1 for count in grams.values()) / total > most


def arms(directory: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"base": []}
    for name, kind, widths in (
        ("dflash2", "draft-dflash", (1, 2, 3, 4, 5, 6, 7, 15)),
        ("dflash1", "draft-dflash", (1, 2, 3, 4, 5, 6, 7, 15)),
        ("draft", "draft-simple", (1, 2, 3, 4, 5, 6, 7)),
    ):
        for width in widths:
            found[f"{name}@{width}"] = _drafting(directory / f"{name}.gguf", kind, width)
    second = directory / "dflash2.gguf"
    found["dflash2@7 p-min 0.85"] = [*_drafting(second, "draft-dflash", 7), "--spec-draft-p-min", "0.85"]
    found["ngram"] = ["--spec-type", "ngram-mod,ngram-map-k4v", *TABLES]
    found["k4v"] = ["--spec-type", "ngram-map-k4v", *TABLES]
    for tables in ("k4v", "mod", "mod+k4v"):
        kinds = ",".join(
            ["draft-dflash", *("ngram-map-k4v" if table == "k4v" else "ngram-mod" for table in tables.split("+"))]
        )
        found[f"dflash2+{tables}"] = [*_drafting(second, kinds, 7), *TABLES]
    return found


def _drafting(model: Path, kind: str, width: int) -> list[str]:
    if not model.exists():
        return []
    return ["-md", str(model), "--spec-type", kind, "--spec-draft-n-max", str(width), "--spec-draft-n-min", "0", *P_MIN]


P_MIN = ("--spec-draft-p-min", "0.0")


def texts(name: str) -> list[str]:
    content = json.loads((WORKLOADS / f"{name}.json").read_text(encoding="utf-8"))
    return [row["text"] for row in content.get("prompts", content.get("turns"))]


def ask(client: httpx.Client, name: str, base: Tally | None, limit: int | None) -> Tally:
    """Every prompt of a workload. In the session each turn's context holds the replies of ``base``."""
    tally, context = Tally(), ""
    for index, text in enumerate(texts(name)[: limit if name != "session" else None]):
        prompt = context + text if name == "session" else text
        reply = complete(client, prompt, MOST)
        tally.replies.append(reply)
        if name == "session":
            context = prompt + (base.replies[index] if base else reply)["content"]
    return tally


def measure(
    wanted: Callable[[str], bool],
    model: Path,
    directory: Path = SHIPPED,
    names: tuple[str, ...] = WORKLOAD_NAMES,
    limit: int | None = None,
) -> dict[str, dict[str, dict[str, Any]]]:
    base: dict[str, Tally] = {}
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for arm, more in arms(directory).items():
        if arm != "base" and not (wanted(arm) and more):
            continue
        with server(model, *more) as client:
            complete(client, "def ", 4)
            tallies = {name: ask(client, name, base.get(name), limit) for name in names}
        base = base or tallies
        rows[arm] = {name: tally.row(base[name]) for name, tally in tallies.items()}
        print(arm, *(f"| {name} {summary(row)}" for name, row in rows[arm].items()), flush=True)
    return rows


def summary(row: dict[str, Any]) -> str:
    return (
        f"{row['tokens']} tokens {row['tokens_per_cycle']:.2f}/cycle drafted {row['drafted']}"
        f" accepted {row['acceptance']:.2f} ended {row['ended']} looping {row['looping']}"
        f" same {row['same_as_base']} of {row['prompts']}"
    )


def main() -> None:
    chosen = sys.argv[1:]
    rows = measure(lambda arm: not chosen or arm in chosen, SHIPPED / "target.gguf")
    if not chosen:
        card = {
            "server": build(SHIPPED / "target.gguf"),
            "command": "LLAMA_SERVER=llama-server python -m models.measure",
            "threads": 1,
            "n_predict": MOST,
            "members": {name: member.sha256 for name, member in members().items()},
            "arms": rows,
        }
        (SHIPPED / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def build(model: Path) -> str:
    with server(model) as client:
        return f"llama.cpp {client.get('/props').json()['build_info']}"


if __name__ == "__main__":
    main()
