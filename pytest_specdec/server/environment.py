"""What a build under test may see of the environment: strangers wrote it, so no token, and nothing that turns flags."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["RUN_ID_VARIABLE", "allowed_environment", "environment_of_run"]

RUN_ID_VARIABLE = "SPECDEC_RUN_ID"

# Everything else stays out: LLAMA_ARG_* would change flags behind our back, LLAMA_SERVER_DEBUG_FAKE_TIMING would fake
# the figures, and secrets are not for a build under test.
_ALLOWED = frozenset({
    "DYLD_FALLBACK_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LLAMA_CACHE",
    "LOGNAME", "PATH", "PYTHONPATH", "SHELL", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
})  # fmt: skip
_ALLOWED_PREFIXES = (
    "CUDA_", "DOCKER_", "GGML_", "GOMP_", "HIP_", "HSA_", "KMP_", "LC_", "NVIDIA_", "OMP_", "OPENBLAS_", "ROCR_", "VK_",
    "XDG_",
)  # fmt: skip


def allowed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of ``environment`` that whatever is run of a build may see."""
    kept = {
        name: value for name, value in environment.items() if name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)
    }
    # Without it an assertion in ggml starts a debugger to print a stack, which takes longer than we wait for an answer.
    return {"GGML_NO_BACKTRACE": "1", **kept}


def environment_of_run(environment: Mapping[str, str], run_id: str) -> dict[str, str]:
    """The same for a server, with the id by which a later run knows our orphans."""
    return {**allowed_environment(environment), RUN_ID_VARIABLE: run_id}
