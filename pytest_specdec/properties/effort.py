"""How many examples, and where those that failed are kept."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from pytest_specdec.records import Effort

__all__ = ["settings_for"]

# An example is a few requests to each of two servers. The profiles are named for what they take on the tiny models.
_EXAMPLES = {Effort.SECONDS: 10, Effort.MINUTES: 250, Effort.NIGHTLY: 5000}


def settings_for(effort: Effort, root: Path) -> settings:
    """Examples that failed lie in ``.hypothesis`` under ``root``, and are tried again first."""
    return settings(
        max_examples=_EXAMPLES[effort],
        database=DirectoryBasedExampleDatabase(root / ".hypothesis" / "examples"),
        # A server answers as fast as the machine lets it: no example is wrong for being slow.
        deadline=None,
        suppress_health_check=list(HealthCheck),
        # Looking for other failures beside the first would cost as much again.
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
        # Why it failed is told by the verdict; explaining by more examples costs requests.
        phases=[Phase.reuse, Phase.explicit, Phase.generate, Phase.target, Phase.shrink],
    )
