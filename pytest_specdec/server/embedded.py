"""llama.cpp's own HTTP server out of the xllamacpp wheel, as a process that takes llama-server's flag names.

``python -m pytest_specdec.server.embedded --model FILE …``. A flag that it does not know ends it with exit code 2 and
is named, so that a typing error never passes for a default.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["main"]


@dataclass(frozen=True)
class _Flag:
    """One flag under its llama-server names, and where its value goes in the wheel's parameters."""

    names: tuple[str, ...]
    field: str
    parse: Callable[[str], Any] | None = str
    value: Any = None  # what a flag without an argument sets


def _flash_attention(text: str) -> Any:
    from xllamacpp import llama_flash_attn_type as kinds

    known = {
        "on": kinds.LLAMA_FLASH_ATTN_TYPE_ENABLED,
        "off": kinds.LLAMA_FLASH_ATTN_TYPE_DISABLED,
        "auto": kinds.LLAMA_FLASH_ATTN_TYPE_AUTO,
    }
    return _among(known, text)


def _cache_type(text: str) -> Any:
    from xllamacpp import ggml_type

    known = {name.removeprefix("GGML_TYPE_").lower(): kind for name, kind in ggml_type.__members__.items()}
    return _among(known, text)


def _spec_types(text: str) -> list[Any]:
    from xllamacpp import common_speculative_type

    prefix = "COMMON_SPECULATIVE_TYPE_"
    members = common_speculative_type.__members__.items()
    known = {name.removeprefix(prefix).lower().replace("_", "-"): kind for name, kind in members if "COUNT" not in name}
    return [_among(known, word) for word in text.split(",")]


def _gpu_layers(text: str) -> int:
    return {"auto": -1, "all": -2}[text] if text in ("auto", "all") else int(text)


def _draft_sampling(text: str) -> bool:
    return bool(_among({"greedy": False, "probabilistic": True}, text))


def _on_off(text: str) -> bool:
    return bool(_among({"on": True, "off": False}, text))


def _rates(text: str) -> list[float]:
    return [float(word) for word in text.split(",")]


def _one(text: str) -> list[str]:
    return [text]


def _among(known: dict[str, Any], text: str) -> Any:
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(known)}")
    return known[text]


_DRAFT = "speculative.draft."
_FLAGS: tuple[_Flag, ...] = (
    _Flag(("--model", "-m"), "model.path"),
    _Flag(("--alias", "-a"), "model_alias", lambda text: set(text.split(","))),
    _Flag(("--host",), "hostnames", _one),
    _Flag(("--port",), "port", int),
    _Flag(("--api-key",), "api_keys", lambda text: text.split(",")),
    _Flag(("--ctx-size", "-c"), "n_ctx", int),
    _Flag(("--parallel", "-np"), "n_parallel", int),
    _Flag(("--n-predict", "--predict", "-n"), "n_predict", int),
    _Flag(("--batch-size", "-b"), "n_batch", int),
    _Flag(("--ubatch-size", "-ub"), "n_ubatch", int),
    _Flag(("--keep",), "n_keep", int),
    _Flag(("--threads", "-t"), "cpuparams.n_threads", int),
    _Flag(("--threads-batch", "-tb"), "cpuparams_batch.n_threads", int),
    _Flag(("--poll",), "cpuparams.poll", int),
    _Flag(("--poll-batch",), "cpuparams_batch.poll", int),
    _Flag(("--threads-http",), "n_threads_http", int),
    _Flag(("--flash-attn", "-fa"), "flash_attn_type", _flash_attention),
    _Flag(("--cache-type-k", "-ctk"), "cache_type_k", _cache_type),
    _Flag(("--cache-type-v", "-ctv"), "cache_type_v", _cache_type),
    _Flag(("--cache-ram", "-cram"), "cache_ram_mib", int),
    _Flag(("--cache-reuse",), "n_cache_reuse", int),
    _Flag(("--cache-prompt",), "cache_prompt", None, True),
    _Flag(("--no-cache-prompt",), "cache_prompt", None, False),
    _Flag(("--ctx-checkpoints",), "n_ctx_checkpoints", int),
    _Flag(("--context-shift",), "ctx_shift", None, True),
    _Flag(("--no-context-shift",), "ctx_shift", None, False),
    _Flag(("--kv-unified", "-kvu"), "kv_unified", None, True),
    _Flag(("--no-kv-unified", "-no-kvu"), "kv_unified", None, False),
    _Flag(("--gpu-layers", "--n-gpu-layers", "-ngl"), "n_gpu_layers", _gpu_layers),
    _Flag(("--fit", "-fit"), "fit_params", _on_off),
    _Flag(("--seed", "-s"), "sampling.seed", int),
    _Flag(("--ignore-eos",), "sampling.ignore_eos", None, True),
    _Flag(("--metrics",), "endpoint_metrics", None, True),
    _Flag(("--slots",), "endpoint_slots", None, True),
    _Flag(("--no-slots",), "endpoint_slots", None, False),
    _Flag(("--props",), "endpoint_props", None, True),
    _Flag(("--slot-save-path",), "slot_save_path", lambda text: text.rstrip("/") + "/"),
    _Flag(("--slot-prompt-similarity", "-sps"), "slot_prompt_similarity", float),
    _Flag(("--warmup",), "warmup", None, True),
    _Flag(("--no-warmup",), "warmup", None, False),
    _Flag(("--jinja",), "use_jinja", None, True),
    _Flag(("--no-jinja",), "use_jinja", None, False),
    _Flag(("--chat-template",), "chat_template"),
    _Flag(("--reasoning",), "enable_reasoning", lambda text: _among({"on": 1, "off": 0, "auto": -1}, text)),
    _Flag(("--no-mmproj",), "no_mmproj", None, True),
    _Flag(("--log-verbosity", "--verbosity", "-lv"), "verbosity", int),
    # drafting
    _Flag(("--spec-type",), "speculative.types", _spec_types),
    _Flag(("--spec-draft-model", "--model-draft", "-md"), _DRAFT + "mparams.path"),
    _Flag(("--spec-draft-n-max",), _DRAFT + "n_max", int),
    _Flag(("--spec-draft-n-min",), _DRAFT + "n_min", int),
    _Flag(("--spec-draft-p-min", "--draft-p-min"), _DRAFT + "p_min", float),
    _Flag(("--spec-draft-p-split", "--draft-p-split"), _DRAFT + "p_split", float),
    _Flag(("--spec-draft-sampling",), _DRAFT + "probabilistic", _draft_sampling),
    _Flag(("--spec-draft-backend-sampling",), _DRAFT + "backend_sampling", None, True),
    _Flag(("--no-spec-draft-backend-sampling",), _DRAFT + "backend_sampling", None, False),
    _Flag(
        ("--spec-draft-ngl", "--gpu-layers-draft", "--n-gpu-layers-draft", "-ngld"),
        _DRAFT + "n_gpu_layers",
        _gpu_layers,
    ),
    _Flag(("--spec-draft-threads", "--threads-draft", "-td"), _DRAFT + "cpuparams.n_threads", int),
    _Flag(("--spec-draft-threads-batch", "--threads-batch-draft", "-tbd"), _DRAFT + "cpuparams_batch.n_threads", int),
    _Flag(("--spec-draft-poll", "--poll-draft"), _DRAFT + "cpuparams.poll", int),
    _Flag(("--spec-draft-poll-batch", "--poll-batch-draft"), _DRAFT + "cpuparams_batch.poll", int),
    _Flag(("--spec-draft-type-k", "--cache-type-k-draft", "-ctkd"), _DRAFT + "cache_type_k", _cache_type),
    _Flag(("--spec-draft-type-v", "--cache-type-v-draft", "-ctvd"), _DRAFT + "cache_type_v", _cache_type),
    _Flag(("--spec-synth-len",), "speculative.synth_len", float),
    _Flag(("--spec-synth-rates",), "speculative.synth_rates", _rates),
    _Flag(("--spec-ngram-mod-n-match",), "speculative.ngram_mod.n_match", int),
    _Flag(("--spec-ngram-mod-n-min",), "speculative.ngram_mod.n_min", int),
    _Flag(("--spec-ngram-mod-n-max",), "speculative.ngram_mod.n_max", int),
    *(
        _Flag((f"--spec-{name}-{what}",), f"speculative.{name.replace('-', '_')}.{what.replace('-', '_')}", int)
        for name in ("ngram-simple", "ngram-map-k", "ngram-map-k4v")
        for what in ("size-n", "size-m", "min-hits")
    ),
)


_STOP = (signal.SIGTERM, signal.SIGINT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server until SIGTERM or SIGINT. Exit codes: 0 stopped, 1 it could not start, 2 a flag is unknown."""
    given = _parser().parse_args(arguments)
    # Blocked in every thread, those of the wheel's import included, and waited for: a handler that runs just before one
    # begins to wait wakes nobody.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    parameters = _parameters(given)
    from xllamacpp import Server

    try:
        server = Server(parameters)
    except RuntimeError as error:
        print(f"embedded server: {error}", file=sys.stderr)  # noqa: T201  the log is this process's only output
        return 1
    signal.sigwait(_STOP)
    del server
    return 0


class _Version(argparse.Action):
    """Looks the version up only when it is asked for: that takes a third of a start."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import importlib.metadata

        print(f"xllamacpp {importlib.metadata.version('xllamacpp')}")  # noqa: T201
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    usage = "python -m pytest_specdec.server.embedded --model FILE [llama-server's flags …]"
    parser = argparse.ArgumentParser(prog="embedded server", usage=usage, allow_abbrev=False, description=__doc__)
    parser.add_argument("--version", action=_Version, nargs=0, help="the wheel's version")
    for number, flag in enumerate(_FLAGS):
        if flag.parse is None:
            parser.add_argument(*flag.names, dest=f"flag{number}", action="store_const", const=flag.value, default=None)
        else:
            parser.add_argument(*flag.names, dest=f"flag{number}", type=flag.parse, metavar="VALUE")
    return parser


def _parameters(given: argparse.Namespace) -> Any:
    from xllamacpp import CommonParams

    parameters = CommonParams()
    # A wheel that fits parameters to the machine would run another configuration than the one that was asked for.
    parameters.fit_params = False
    for number, flag in enumerate(_FLAGS):
        value = getattr(given, f"flag{number}")
        if value is not None:
            _set(parameters, flag.field, value)
    return parameters


def _set(parameters: Any, field: str, value: Any) -> None:
    *path, last = field.split(".")
    for step in path:
        parameters = getattr(parameters, step)
    setattr(parameters, last, value)


if __name__ == "__main__":
    sys.exit(main())
