"""The suites are a package of the installed project too: whatever they import must be found there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SUITES = Path(__file__).parents[2] / "suites"
# In a checkout that is installed in place a package `suites` can be found, so that its use has to be looked for.
CHECK = """
import sys

def pytest_collection_finish(session):
    assert len(session.items) > 50
    assert "suites" not in sys.modules, "imported as it is called in a checkout"
"""


def test_they_are_collected_under_another_name(tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    for folder in (site / "installed", elsewhere):
        folder.mkdir(parents=True)
    (site / "installed" / "__init__.py").touch()
    (site / "check_names.py").write_text(CHECK, "utf-8")
    shutil.copytree(SUITES, site / "installed" / "suites", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "check_names", "--collect-only", "-q", "--pyargs", "installed.suites"],
        cwd=elsewhere, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
