"""pytest-xdist: all workers share one run directory, which the controller names; each panel is one worker's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.keys import CLAIM, NOTES, RUN_DIR, SETTINGS
from pytest_specdec.markers import GROUP
from pytest_specdec.options import settings_of

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_configure_node",
    "pytest_sessionstart",
    "pytest_testnodedown",
    "pytest_xdist_node_collection_finished",
]

_KEY = "specdec_run_dir"
_SHOWN: pytest.StashKey[bool] = pytest.StashKey()


def pytest_sessionstart(session: pytest.Session) -> None:
    """A worker takes the directory that it was sent."""
    sent = getattr(session.config, "workerinput", {}).get(_KEY)
    if sent:
        session.config.stash[RUN_DIR] = sent


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``--dist=loadgroup`` gives the claims of one panel to one worker, so that one device has measured all of it."""
    for item in items:
        cells = item.stash[CLAIM].cells if CLAIM in item.stash else ()
        if cells:
            mode, workload = cells[0].panel
            item.add_marker(pytest.mark.xdist_group(f"{GROUP}{mode}-{workload}"))


def pytest_configure_node(node: Any) -> None:
    """The controller chooses the directory once and sends it with each worker's input."""
    from pytest_specdec.places import new_run_dir

    config: pytest.Config = node.config
    if SETTINGS not in config.stash:
        config.stash[SETTINGS] = settings_of(config)
    if RUN_DIR not in config.stash:
        settings = config.stash[SETTINGS]
        config.stash[RUN_DIR] = str(settings.resume or settings.run_dir or new_run_dir(config.rootpath))
    node.workerinput[_KEY] = config.stash[RUN_DIR]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """A worker has begun the run, which the controller shows once: it collects nothing and has no header else."""
    config: pytest.Config = node.config
    directory, terminal = Path(config.stash[RUN_DIR]), config.pluginmanager.getplugin("terminalreporter")
    if terminal is None or _SHOWN in config.stash or not (directory / "run.json").exists():
        return
    from pytest_specdec.measure.ledger import Ledger
    from pytest_specdec.reporting import header_lines

    config.stash[_SHOWN] = True
    for line in header_lines(Ledger(directory)):
        terminal.write_line(line)


def pytest_testnodedown(node: Any) -> None:
    """What a worker has to tell at its end, such as what it recorded or why it gave up, is told by the controller."""
    told = getattr(node, "workeroutput", {})
    if "specdec_error" in told:
        raise pytest.UsageError(told["specdec_error"])
    node.config.stash[NOTES] += told.get("specdec_notes", [])
