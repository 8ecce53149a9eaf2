"""Writes what the ini file sets to the file in ``$SPECDEC_SETTINGS``, and nothing is run; loaded with ``-p``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pytest_specdec.options import OPTIONS, in_ini

__all__ = ["pytest_cmdline_main"]


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """By flag, each as the text that the flag would be given."""
    path = os.environ.get("SPECDEC_SETTINGS")
    if not path:
        return None
    found = {option.flag: in_ini(option, config) for option in OPTIONS}
    Path(path).write_text(json.dumps({flag: texts[0] for flag, texts in found.items() if texts}), "utf-8")
    return 0
