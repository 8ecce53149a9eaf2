"""Assembles the corpus from the texts in ``corpus/``: every document is a prompt and the reply that belongs to it."""

from __future__ import annotations

import json
import random
import re
import tomllib
from dataclasses import asdict, dataclass
from string import Template
from typing import TYPE_CHECKING, Any

from models.settings import BUILD, CORPUS, SEED

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE, PROSE, SESSIONS = 108, 96, 28
CODE_SHOWN, PROSE_SHOWN = 0.3, 0.22  # how much of a text its prompt shows


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt and its reply.

    White space goes to the reply, but for an opening that ends before an empty line: so text that is put together from
    both has the same tokens as the parts.
    """

    prompt: str
    reply: str


@dataclass(frozen=True, slots=True)
class Document:
    kind: str
    turns: list[Turn]

    @property
    def text(self) -> str:
        return "".join(turn.prompt + turn.reply for turn in self.turns)


def pieces(name: str) -> list[str]:
    """The parts of a file that ``%%`` separates."""
    return [part.strip("\n") for part in (CORPUS / name).read_text(encoding="utf-8").split("\n%%\n")]


def tables(name: str) -> dict[str, Any]:
    return tomllib.loads((CORPUS / name).read_text(encoding="utf-8"))


def cut_lines(text: str, share: float) -> Turn:
    lines = text.split("\n")
    head = "\n".join(lines[: max(1, round(len(lines) * share))])
    return Turn(head, text[len(head) :])


def cut_words(text: str, share: float) -> Turn:
    head = text[: max(text.find(" "), text.rfind(" ", 0, round(len(text) * share)))]
    return Turn(head, text[len(head) :])


def code(rng: random.Random) -> Iterator[str]:
    """The templates in turn, each time with other words and another first part."""
    templates, words = [Template(piece) for piece in pieces("code.txt")], tables("words.toml")
    known: set[str] = set()
    while len(known) < CODE:
        noun, other = rng.sample(words["nouns"], 2)
        text = templates[len(known) % len(templates)].substitute(
            n=noun,
            N=noun.capitalize(),
            m=other,
            v=rng.choice(words["verbs"]),
            a=rng.choice(words["attributes"]),
            s=rng.choice(words["states"]),
            c=rng.choice(words["colors"]),
            k=rng.randint(4, 9),
            j=rng.randint(2, 4),
            w=rng.choice([12, 16, 20, 24]),
        )
        head = cut_lines(text, CODE_SHOWN).prompt
        if head not in known:
            known.add(head)
            yield text


def prose(rng: random.Random) -> Iterator[str]:
    table = tables("prose.toml")
    gaps = table["gaps"]
    for index in range(PROSE):
        first, second = rng.sample(gaps["people"], 2)
        plan = table["plans"][index % len(table["plans"])]

        def fill(found: re.Match[str], people: tuple[str, str] = (first, second)) -> str:
            name = found.group(1)
            if name in "pq":
                return people["pq".index(name)]
            word = str(rng.choice(gaps[name.lower()]))
            return word[0].upper() + word[1:] if name[0].isupper() else word

        yield " ".join(re.sub(r"\{(\w+)\}", fill, rng.choice(table[role])) for role in plan)


def refrains(rng: random.Random) -> Iterator[str]:
    table = tables("refrain.toml")
    for title, beginning in zip(table["titles"], table["beginnings"], strict=True):
        lines = [f"{beginning} {rest}." for rest in rng.sample(table["continuations"], 9)]
        yield "\n".join([title, "", *lines])


def sessions(rng: random.Random) -> Iterator[Turn]:
    """A file is shown and then given again with one change."""
    files = list(code(rng))
    rng.shuffle(files)
    for index, text in enumerate(files[:SESSIONS]):
        names = sorted(set(re.findall(r"\b[a-z_]{5,}\b", text)))
        name = rng.choice(names)
        if index % 2:
            yield Turn(
                f"# The file\n{text}\n\n# Rename {name} to my_{name}", "\n" + re.sub(rf"\b{name}\b", f"my_{name}", text)
            )
        else:
            note = f"# checked by {rng.choice(['Anna', 'Hugo', 'Mira', 'Paul'])} in 20{rng.randint(10, 29)}"
            yield Turn(f"# The file\n{text}\n\n# Put a note at the top: {note}", f"\n{note}\n{text}")


def conversation() -> Document:
    turns = []
    for index, piece in enumerate(pieces("conversation.txt")):
        request, reply = piece.split("\n---\n")
        turns.append(Turn(("\n\n" if index else "") + request, "\n" + reply))
    return Document("conversation", turns)


def assemble() -> list[Document]:
    rng = random.Random(SEED)
    documents = [Document("code", [cut_lines(text, CODE_SHOWN)]) for text in code(rng)]
    documents += [Document("prose", [cut_words(text, PROSE_SHOWN)]) for text in prose(rng)]
    documents += [Document("session", [turn]) for turn in sessions(rng)]
    documents += [Document("refrain", [cut_lines(text, 0.3)]) for text in refrains(rng)]
    documents += [Document("edges", [cut_words(text, 0.3)]) for text in pieces("edges.txt")]
    return [*documents, conversation()]


def read() -> list[Document]:
    """What ``main`` has written."""
    content = json.loads((BUILD / "corpus.json").read_text(encoding="utf-8"))
    return [Document(item["kind"], [Turn(**turn) for turn in item["turns"]]) for item in content]


def main() -> None:
    BUILD.mkdir(exist_ok=True)
    documents = assemble()
    (BUILD / "corpus.json").write_text(
        json.dumps([asdict(document) for document in documents], indent=1), encoding="utf-8"
    )
    for kind in dict.fromkeys(document.kind for document in documents):
        texts = [document.text for document in documents if document.kind == kind]
        print(f"{kind}: {len(texts)} texts, {sum(map(len, texts))} characters")
    prompts = [turn.prompt for document in documents for turn in document.turns]
    print(f"{len(prompts)} prompts, {len(set(prompts))} of them distinct")


if __name__ == "__main__":
    main()
