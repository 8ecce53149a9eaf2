"""Writes the prompt data of the package: openings of what the target knows, and the edges of what it does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from models import corpus_build, tokens
from models.corpus_build import pieces, tables
from models.settings import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

COUNT = 72
SHORT = 3
ABOUT = {
    "code": "openings of functions, classes, queries and scripts that the tiny target knows",
    "prose": "openings of prose passages that the tiny target knows",
    "refrain": "pieces whose lines begin alike and go on differently, and more prose: lookups fire, and miss",
    "mixed": "for losslessness a little of everything: code, prose, files given again, repetition, other scripts",
    "session": "eighteen turns of one conversation: a turn's context is every text and reply before it, as plain text",
}
# What no text of the corpus begins with.
STRANGE = (
    "Grüße an alle, die um 7 Uhr früh schon wach sind",
    "日本語の短い文、そして",
    "α β γ δ → ∑ ∞",
    "🙂🙃🙂🙃🙂",
    "a",
    "la la la la la la la la",
    "    \n\n\n    \t",
    "0123456789 0123456789 0123",
    "SELECT * FROM nothing WHERE",
)


def write(name: str, content: dict[str, object]) -> None:
    path = WORKLOADS / f"{name}.json"
    text = json.dumps({"name": name, "about": ABOUT[name], **content}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def rows(name: str, prompts: Sequence[str]) -> list[dict[str, str]]:
    return [{"id": f"{name}-{number:02d}", "text": text} for number, text in enumerate(prompts, start=1)]


def refrains(openings: list[str]) -> list[str]:
    """The pieces whose beginning is so short that a lookup knows it only when it is over, and drafts what is wrong."""
    tokenizer, beginnings = tokens.load(), tables("refrain.toml")["beginnings"]
    pairs = zip(beginnings, openings, strict=True)
    return [opening for beginning, opening in pairs if len(tokenizer.encode(beginning).ids) <= SHORT]


def main() -> None:
    documents = corpus_build.read()
    openings = {
        kind: [document.turns[0].prompt.rstrip() for document in documents if document.kind == kind]
        for kind in ("code", "prose", "session", "refrain", "edges")
    }
    for name in ("code", "prose"):
        write(name, {"prompts": rows(name, openings[name][:COUNT])})
    write("refrain", {"prompts": rows("refrain", refrains(openings["refrain"]) + openings["prose"][COUNT:])})
    edges = [text[: len(text) // 3].rstrip() for text in pieces("edges.txt")[:3]]
    mixed = [
        *openings["code"][-3:],
        *openings["prose"][-3:],
        *openings["session"][:2],
        *openings["refrain"][:2],
        *edges[:1],
        *STRANGE,
    ]
    write("mixed", {"prompts": rows("mixed", mixed)})
    conversation = documents[-1]
    write("session", {"turns": rows("turn", [turn.prompt for turn in conversation.turns])})


if __name__ == "__main__":
    main()
