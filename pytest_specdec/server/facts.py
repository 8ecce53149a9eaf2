"""What a server that somebody else runs says of itself: its build, and the model that it serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from pytest_specdec.errors import ServerError
from pytest_specdec.server.process import LiveServer

__all__ = ["build_info", "target_facts"]

_TIMEOUT_S = 10.0
_SHOWN = 200

# Of the model alone: the context, the slots and the paths are the server's, and may differ.
_OF_THE_MODEL = ("vocab_type", "n_vocab", "n_embd", "n_params", "n_ctx_train", "size", "ftype")


def build_info(server: LiveServer) -> str:
    """What the server says of its build in ``/props``, such as ``b11434-1a2b3c4``. Raises ServerError."""
    tried = f"asking {server.url}/props (arm {server.arm}) which build it is"
    said = _answer(server, "/props", tried)
    if not isinstance(said, dict) or "build_info" not in said:
        raise ServerError(tried, "it answered without build_info", "is it a llama-server? Else correct the URL")
    return str(said["build_info"])


def target_facts(server: LiveServer) -> Mapping[str, Any]:
    """What ``/v1/models`` says of the model, as far as it says anything. Raises ServerError when it does not answer."""
    said = _answer(server, "/v1/models", f"asking {server.url}/v1/models (arm {server.arm}) which model it serves")
    try:
        meta = said["data"][0]["meta"]
        return {name: meta[name] for name in _OF_THE_MODEL if name in meta}
    except (KeyError, IndexError, TypeError):
        return {}


def _answer(server: LiveServer, path: str, tried: str) -> Any:
    headers = {"Authorization": f"Bearer {server.api_key}"} if server.api_key else {}
    try:
        answer = httpx.get(server.url + path, headers=headers, timeout=_TIMEOUT_S, trust_env=False)
    except httpx.HTTPError as error:
        raise ServerError(tried, f"{type(error).__name__}: {error}", "is it a llama-server? Correct the URL") from None
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        state = "wrong" if server.api_key else "unset"
        why = f"{answer.status_code}: $LLAMA_API_KEY is {state}"
        raise ServerError(tried, why, "set $LLAMA_API_KEY to the key that the server was started with (--api-key)")
    if answer.status_code != httpx.codes.OK:
        why = f"HTTP {answer.status_code}: {answer.text[:_SHOWN]}"
        raise ServerError(tried, why, "is it a llama-server? Else correct the URL")
    try:
        return answer.json()
    except ValueError:
        why = f"it answered with something that is not JSON: {answer.text[:_SHOWN]!r}"
        raise ServerError(tried, why, "is it a llama-server? Else correct the URL") from None
