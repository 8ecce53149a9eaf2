from __future__ import annotations

# pytester forgets what a run in this process has imported. These are kept, else every such run would import them anew.
# An httpcore of its own would also raise exceptions that httpx, which has met the first one, does not know.
import httpcore  # noqa: F401
import jsonschema  # noqa: F401
import pytest

import pytest_specdec.declaration
import pytest_specdec.reporting
import pytest_specdec.session  # noqa: F401
from tests.support import SETTINGS


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Without the plugins that only cost time; pytester itself has taken the setting away."""
    monkeypatch.setenv("PYTEST_ADDOPTS", SETTINGS["PYTEST_ADDOPTS"])
    return pytester
