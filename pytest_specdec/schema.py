"""Checks a document against a JSON Schema and words what is wrong for the person who wrote it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

__all__ = ["problems"]


def problems(document: object, package: str, name: str) -> list[str]:
    """Everything wrong with ``document`` by the schema file ``name`` in ``package``; empty when it is valid.

    An unknown key is answered with the known key nearest to it.
    """
    from jsonschema import Draft202012Validator

    schema = json.loads(resources.files(package).joinpath(name).read_text("utf-8"))
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    errors = sorted(validator.iter_errors(document), key=lambda error: list(map(str, error.path)))
    return [line for error in errors for line in _lines(error)]


def _lines(error: ValidationError) -> Iterator[str]:
    place = ".".join(str(step) for step in error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        yield from _unknown_keys(error, place)
    else:
        yield f"{place or 'the document'}: {error.message}"


def _unknown_keys(error: ValidationError, place: str) -> Iterator[str]:
    schema: Any = error.schema
    known = list(schema.get("properties", {}))
    instance: Any = error.instance
    for key in sorted(set(instance) - set(known)):
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else "known keys: " + ", ".join(sorted(known))
        yield f"{place + '.' if place else ''}{key}: unknown key; {hint}"
