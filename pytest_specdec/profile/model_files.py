"""From a model reference in a profile to a file, checked before a server is asked to load it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_specdec.errors import ModelError

__all__ = ["ModelFile", "resolve"]

_HUB = "hf:"
_PACKAGED = "packaged:"
_INFLATED = "inflated:target"
_GGUF_MAGIC = b"GGUF"


@dataclass(frozen=True)
class ModelFile:
    """A model as the server will be given it: a file, or a repository that the server itself looks up."""

    name: str
    path: Path | None = None
    hub: str | None = None

    @cached_property
    def sha256(self) -> str | None:
        """The file's hash in hex; None for a model that only the server can find."""
        if self.path is None:
            return None
        with self.path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()


def resolve(name: str, reference: str, origin: str, progress: Callable[[str], None] = lambda _words: None) -> ModelFile:
    """The model that ``reference`` means.

    ``packaged:NAME`` is a member of the tiny family, ``inflated:target`` its target widened by zeros (made once, which
    ``progress`` is told), ``hf:USER/REPO[:QUANT]`` is for the server to find, anything else is a path: as given (``~``
    and variables expanded), beside the profile file ``origin``, or in ``$LLAMA_CACHE``.
    Raises ModelError when the file is missing, is not GGUF, or is shorter than its header says.
    """
    if reference.startswith(_HUB):
        return ModelFile(name, hub=reference.removeprefix(_HUB))
    if reference == _INFLATED:
        from pytest_specdec.models.inflate import inflated_target

        def told(done: int, total: int) -> None:
            progress(f"inflating the tiny target, once: {done >> 20} of {total >> 20} MiB")

        return ModelFile(name, path=inflated_target(progress=told))
    if reference.startswith(_PACKAGED):
        from pytest_specdec.models.family import member_path

        return ModelFile(name, path=member_path(reference.removeprefix(_PACKAGED)))
    path = _found(name, reference, origin)
    _check(name, path)
    return ModelFile(name, path=path)


def _found(name: str, reference: str, origin: str) -> Path:
    tried = list(_candidates(reference, origin))
    for path in tried:
        if path.is_file():
            return path
    raise ModelError(
        f"looking for the model {name!r} ({reference})",
        "no such file: " + ", ".join(str(path) for path in tried),
        f"correct models.{name} in the profile, put the file there, or set LLAMA_CACHE to the folder that has it",
    )


def _candidates(reference: str, origin: str) -> Iterator[Path]:
    path = Path(os.path.expandvars(reference)).expanduser()
    yield path
    if path.is_absolute():
        return
    yield Path(origin).parent / path
    if os.environ.get("LLAMA_CACHE"):
        yield Path(os.environ["LLAMA_CACHE"]) / path


def _check(name: str, path: Path) -> None:
    """A damaged file must not pass for a build that cannot load the arm."""
    try:
        with path.open("rb") as handle:
            magic = handle.read(len(_GGUF_MAGIC))
        if magic == _GGUF_MAGIC:
            from gguf import GGUFReader

            GGUFReader(path)  # maps every tensor, so it fails when the data is cut short
            return
        why = f"it begins with {magic!r} and not with {_GGUF_MAGIC!r}: not a GGUF file"
    except (OSError, ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        why = f"it cannot be read as GGUF: {error}"
    raise ModelError(f"checking the model {name!r} at {path}", why, "download or export the file again")
