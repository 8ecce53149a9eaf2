"""Which llama-server it is, and what it can do."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BuildIdentity", "Capabilities"]


@dataclass(frozen=True, slots=True)
class BuildIdentity:
    """Which llama-server answers."""

    source: str  # embedded, path, environment, PATH, package, url
    location: str
    number: int | None
    commit: str | None
    version: str  # the words of --version or of the package
    why: str  # why this one was taken

    @property
    def label(self) -> str:
        """A short name for screens and files."""
        return f"b{self.number}" if self.number is not None else self.version


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which flags a build lists in its ``--help``."""

    flags: frozenset[str]
