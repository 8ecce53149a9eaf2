"""The members of the tiny family as they ship with the package: what each is, and a path that was verified."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_specdec.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Member", "member_path", "members", "sha256_of"]

SHIPPED = Path(__file__).resolve().parent
MANIFEST = "manifest.json"
REINSTALL = "reinstall the package: pip install --force-reinstall --no-deps pytest-specdec"


@dataclass(frozen=True, slots=True)
class Member:
    """One model file and what is known of it."""

    name: str
    file: str
    sha256: str
    size: int
    parameters: int
    arch: str
    about: str
    training: Mapping[str, Any]


def members(directory: Path | None = None) -> dict[str, Member]:
    """Every member that the manifest lists, by name. ``directory`` is where the files lie: the package's own."""
    manifest = _manifest(directory or SHIPPED)
    try:
        return {
            name: Member(
                name=name,
                file=str(entry["file"]),
                sha256=str(entry["sha256"]),
                size=int(entry["size"]),
                parameters=int(entry["parameters"]),
                arch=str(entry["arch"]),
                about=str(entry["about"]),
                training=dict(entry["training"]),
            )
            for name, entry in manifest["members"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(
            f"read {(directory or SHIPPED) / MANIFEST}",
            f"an entry of the manifest lacks a field or has one of the wrong type ({type(error).__name__}: {error})",
            REINSTALL,
        ) from error


def member_path(name: str, directory: Path | None = None) -> Path:
    """The file of one member, after its SHA-256 was compared with the manifest's."""
    root = directory or SHIPPED
    known = members(root)
    tried = f"open {name!r} of the tiny family"
    if name not in known:
        raise ModelError(
            tried, f"the family has no such member; it has {', '.join(sorted(known))}", "use one of these names"
        )
    member = known[name]
    path = root / member.file
    try:
        digest = sha256_of(path)
    except FileNotFoundError as error:
        raise ModelError(tried, f"{path} does not exist", REINSTALL) from error
    except OSError as error:
        raise ModelError(
            tried, f"{path} cannot be read: {error.strerror}", f"make it readable, or {REINSTALL}"
        ) from error
    if digest != member.sha256:
        raise ModelError(
            tried,
            f"{path} is not the file that was declared: its SHA-256 is {digest}, the manifest says {member.sha256}",
            REINSTALL,
        )
    return path


def sha256_of(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _manifest(root: Path) -> dict[str, Any]:
    path = root / MANIFEST
    tried = f"read {path}"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(tried, "the manifest of the tiny family does not exist", REINSTALL) from error
    except OSError as error:
        raise ModelError(tried, f"it cannot be read: {error.strerror}", f"make it readable, or {REINSTALL}") from error
    except ValueError as error:
        raise ModelError(tried, f"it is not valid JSON: {error}", REINSTALL) from error
    if not isinstance(content, dict) or not isinstance(content.get("members"), dict):
        raise ModelError(tried, "it has no object 'members'", REINSTALL)
    return content
