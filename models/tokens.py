"""The tokenizer of the whole family (byte-level BPE), and documents as token ids with the labels they train on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers import models as algorithms

from models import corpus_build
from models.settings import BUILD, END, VOCABULARY

if TYPE_CHECKING:
    from models.corpus_build import Document

PATH = BUILD / "tokenizer.json"
SPECIAL = ["<|endoftext|>", "<|mask|>"]  # END and MASK


@dataclass(frozen=True, slots=True)
class Ids:
    """The token ids of a text, and for each the id that should follow it."""

    kind: str
    ids: list[int]
    labels: list[int]


def load() -> Tokenizer:
    return Tokenizer.from_file(str(PATH))


def encode(tokenizer: Tokenizer, document: Document) -> Ids:
    ids = [END]
    ends = []
    for turn in document.turns:
        ids += tokenizer.encode(turn.prompt).ids + tokenizer.encode(turn.reply).ids
        ends.append(len(ids) - 1)
    labels = [*ids[1:], END]
    # In a conversation another request follows a reply, but the reply itself is over there.
    for end in ends:
        labels[end] = END
    return Ids(document.kind, ids, labels)


def encode_all() -> list[Ids]:
    tokenizer = load()
    return [encode(tokenizer, document) for document in corpus_build.read()]


def main() -> None:
    tokenizer = Tokenizer(algorithms.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([document.text for document in corpus_build.read()], trainer)
    tokenizer.save(str(PATH))
    texts = encode_all()
    for kind in dict.fromkeys(text.kind for text in texts):
        lengths = [len(text.ids) for text in texts if text.kind == kind]
        print(f"{kind}: {sum(lengths)} tokens, {max(lengths)} in the longest text")
    print(f"{sum(len(text.ids) for text in texts)} tokens, {tokenizer.get_vocab_size()} entries")


if __name__ == "__main__":
    main()
