from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.models.small_model import write_small_model

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def small_model(tmp_path: Path) -> Path:
    path = tmp_path / "small.gguf"
    write_small_model(path)
    return path
