"""The three names of one setting: its flag, its ini setting, its environment variable."""

from __future__ import annotations

__all__ = ["environment_name", "ini_name"]


def ini_name(flag: str) -> str:
    """``--specdec-run-dir`` is ``specdec_run_dir``, and ``--llama-server`` is ``specdec_llama_server``."""
    return "specdec_" + flag.removeprefix("--").removeprefix("specdec-").replace("-", "_")


def environment_name(flag: str) -> str:
    """``--specdec-run-dir`` is ``SPECDEC_RUN_DIR``."""
    return ini_name(flag).upper()
