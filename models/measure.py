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
from models.settings import BUILD, SHIPPED, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx

MOST = 1000
TABLES = [
    *("--spec-ngram-map-k4v-size-n", "3", "--spec-ngram-map-k4v-size-m", "8", "--spec-ngram-map-k4v-min-hits", "1"),
    *("--spec-ngram-mod-n-match", "4", "--spec-ngram-mod-n-min", "3", "--spec-ngram-mod-n-max", "7"),
]
WORKLOAD_NAMES = ("code", "prose", "session", "refrain", "mixed")
SWEEP_NAMES = ("code", "prose", "session")  # what the arms below the widest are measured on
LONG_NAMES = ("code", "prose")  # of which not every arm answers every prompt
IN_FULL = ("base", "dflash2@7", "dflash1@7")
SOME = 24  # prompts of code and of prose for all other arms
SWEPT = range(1, 7)
PARTIAL = BUILD / "card.json"
Rows = dict[str, dict[str, Any]]


@dataclass
class Tally:
    """What the replies to one workload add up to."""

    replies: list[dict[str, Any]] = field(default_factory=list)

    def row(self, base: Tally) -> dict[str, Any]:
        timings = [reply["timings"] for reply in self.replies]
        after_first = sum(t["predicted_n"] - 1 for t in timings)
        drafted = sum(t.get("draft_n", 0) for t in timings)
        accepted = sum(t.get("draft_n_accepted", 0) for t in timings)
        same = sum(a["tokens"] == b["tokens"] for a, b in zip(self.replies, base.replies, strict=False))
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
    found["dflash2@7 p-min 0.85"] = [*_drafting(second, "draft-dflash", 7)[:-1], "0.85"]
    found["ngram"] = ["--spec-type", "ngram-mod,ngram-map-k4v", *TABLES]
    found["k4v"] = ["--spec-type", "ngram-map-k4v", *TABLES]
    for tables in ("k4v", "mod", "mod+k4v"):
        kinds = ",".join(
            ["draft-dflash", *("ngram-map-k4v" if table == "k4v" else "ngram-mod" for table in tables.split("+"))]
        )
        found[f"dflash2+{tables}"] = [*_drafting(second, kinds, 7), *TABLES]
    return found


def _drafting(model: Path, kind: str, width: int) -> list[str]:
    limits = ["--spec-draft-n-max", str(width), "--spec-draft-n-min", "0", "--spec-draft-p-min", "0.0"]
    return ["-md", str(model), "--spec-type", kind, *limits]


def texts(name: str) -> list[str]:
    content = json.loads((WORKLOADS / f"{name}.json").read_text(encoding="utf-8"))
    return [row["text"] for row in content.get("prompts", content.get("turns"))]


def ask(client: httpx.Client, name: str, base: Tally | None, limit: int | None, cached: bool = False) -> Tally:
    """Every prompt of a workload, or the first ``limit``.

    In the session each turn's context holds the replies of ``base``.
    """
    tally, context = Tally(), ""
    for index, text in enumerate(texts(name)[:limit]):
        prompt = context + text if name == "session" else text
        reply = complete(client, prompt, MOST, cached)
        tally.replies.append(reply)
        if name == "session":
            context = prompt + (base.replies[index] if base else reply)["content"]
    return tally


def measure(
    wanted: Callable[[str], bool], directory: Path, names: tuple[str, ...] = WORKLOAD_NAMES, limit: int | None = None
) -> Iterator[tuple[str, Rows]]:
    """The rows of every wanted arm, as they are measured; ``base`` comes first, since all are compared with it."""
    base: dict[str, Tally] = {}
    for arm, more in arms(directory).items():
        if arm != "base" and not wanted(arm):
            continue
        swept = arm.partition("@")[2] in map(str, SWEPT)
        with server(directory / "target.gguf", *more) as client:
            complete(client, "def ", 4)
            asked = [name for name in names if name in SWEEP_NAMES or not swept]
            some = None if arm in IN_FULL else SOME
            tallies = {
                name: ask(client, name, base.get(name), limit or (some if name in LONG_NAMES else None))
                for name in asked
            }
        base = base or tallies
        rows = {name: tally.row(base[name]) for name, tally in tallies.items()}
        print(arm, *(f"| {name} {summary(row)}" for name, row in rows.items()), flush=True)
        yield arm, rows


def summary(row: dict[str, Any]) -> str:
    return (
        f"{row['tokens']} tokens {row['tokens_per_cycle']:.2f}/cycle drafted {row['drafted']}"
        f" accepted {row['acceptance']:.2f} ended {row['ended']} looping {row['looping']}"
        f" same {row['same_as_base']} of {row['prompts']}"
    )


def main() -> None:
    chosen = sys.argv[1:]
    card: dict[str, Any] = {
        "server": build(SHIPPED / "target.gguf"),
        "command": "LLAMA_SERVER=llama-server python -m models.measure",
        "threads": 1,
        "n_predict": MOST,
        "members": {name: member.sha256 for name, member in members().items()},
        "arms": {},
    }
    # What was measured before with the same files and server is not measured again.
    kept = json.loads(PARTIAL.read_text(encoding="utf-8")) if PARTIAL.exists() and not chosen else {}
    if {**kept, "arms": {}} == card:
        card["arms"] = kept["arms"]
    for arm, rows in measure(lambda arm: arm in chosen if chosen else arm not in card["arms"], SHIPPED):
        card["arms"][arm] = rows
        if not chosen:
            PARTIAL.write_text(json.dumps(card), encoding="utf-8")
    if not chosen:
        card["arms"] = {arm: card["arms"][arm] for arm in arms(SHIPPED)}
        (SHIPPED / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def build(model: Path) -> str:
    with server(model) as client:
        return f"llama.cpp {client.get('/props').json()['build_info']}"


if __name__ == "__main__":
    main()
