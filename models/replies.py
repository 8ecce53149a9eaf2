"""The target's own greedy replies, by llama-server: what the drafters are distilled from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from models import corpus_build, tokens
from models.corpus_build import Document, cut_lines, cut_words
from models.serve import complete, server
from models.settings import BUILD, END

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = BUILD / "replies.json"
MOST = 700


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids of a prompt and of the reply to it; the reply begins at ``start``."""

    kind: str
    ids: list[int]
    start: int


def prompts(document: Document) -> Iterator[str]:
    """The prompt that the workloads use, and two more, so that replies begin in different places."""
    yield document.turns[0].prompt
    cut = cut_lines if document.kind == "code" else cut_words
    if document.kind in ("code", "prose"):
        yield cut(document.text, 0.15).prompt
        yield cut(document.text, 0.5).prompt


def main() -> None:
    tokenizer = tokens.load()
    examples: list[Example] = []
    ended = exact = 0
    with server(BUILD / "target-q8_0.gguf") as client:

        def ask(kind: str, prompt: str) -> str:
            nonlocal ended
            reply = complete(client, prompt, MOST)
            ended += reply["stop_type"] == "eos"
            ids = [END, *tokenizer.encode(prompt).ids]
            said = [token for token in reply["tokens"] if token != END]
            examples.append(Example(kind, [*ids, *said, END], len(ids)))
            return str(reply["content"])

        for document in corpus_build.read():
            if document.kind == "conversation":
                context = ""
                for turn in document.turns:
                    context += turn.prompt
                    reply = ask(document.kind, context)
                    exact += reply == turn.reply
                    context += reply
            else:
                for prompt in dict.fromkeys(prompts(document)):
                    exact += prompt + ask(document.kind, prompt) == document.text
    PATH.write_text(json.dumps([asdict(example) for example in examples]), encoding="utf-8")
    print(f"{len(examples)} replies, {ended} ended by themselves, {exact} are the text of the corpus")


def read() -> list[Example]:
    return [Example(**item) for item in json.loads(PATH.read_text(encoding="utf-8"))]


def weights(examples: list[Example], code: float) -> list[float]:
    """How often a drafter is shown each reply."""
    return [code if example.kind in ("code", "session") else 1.0 for example in examples]


def parted(examples: list[Example]) -> tuple[list[Example], Example]:
    """The single replies, and the conversation as one: its last context holds all the others."""
    turns = [example for example in examples if example.kind == "conversation"]
    others = [
        example for example in examples if example.kind != "conversation" and len(example.ids) > example.start + 1
    ]
    return others, Example("conversation", turns[-1].ids, turns[0].start)


if __name__ == "__main__":
    main()
