"""What a build is made of, so that one is known again: a build that was made anew keeps its path and its version."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_specdec.errors import BuildError
from pytest_specdec.server.build import EMBEDDED, Build

__all__ = ["contents_of"]

_WHEEL = "xllamacpp"
# llama.cpp's own libraries; what follows the suffix is a version, by which several names are of one file.
_LIBRARY = re.compile(r"(?P<name>(lib)?(llama|ggml|mtmd)[\w.+-]*?\.(so|dylib|dll))(\.[\d.]+)?")


def contents_of(build: Build) -> Mapping[str, str]:
    """SHA-256 in hex of the server's file and of llama.cpp's shared libraries near it; of the embedded server the
    version of its wheel.

    Empty where only a launcher can see the file, such as in a container. Raises BuildError for one that cannot be read.
    """
    if build.identity.source == EMBEDDED:
        return {_WHEEL: importlib.metadata.version(_WHEEL)}
    server = Path(build.command[0]).resolve()
    if not server.is_file():
        return {}
    return {"llama-server": _sha256(server), **{name: _sha256(path) for name, path in _libraries(server)}}


def _libraries(server: Path) -> Iterator[tuple[str, Path]]:
    """Each library once: beside the server, where a build has it, or in the ``lib`` of an installation."""
    known: set[str] = set()
    for folder in (server.parent, server.parent.parent / "lib"):
        for path in sorted(folder.glob("*")):  # the name without a version first
            match = _LIBRARY.fullmatch(path.name)
            if match and match["name"] not in known and path.is_file():
                known.add(match["name"])
                yield match["name"], path


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise BuildError(
            f"reading {path}, by whose hash the build is known again", str(error), "make it readable for this user"
        ) from None
