"""pytest-xdist: all workers share one run directory, which the controller names; each panel is one worker's."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.keys import CLAIM, NOTES, RED, RUN_DIR, SESSION, SETTINGS, VERDICTS
from pytest_specdec.markers import GROUP
from pytest_specdec.options import settings_of

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_configure_node",
    "pytest_sessionstart",
    "pytest_testnodedown",
    "pytest_xdist_node_collection_finished",
]

_SENT = {"specdec_run_dir": RUN_DIR, "specdec_session": SESSION}
_SHOWN: pytest.StashKey[bool] = pytest.StashKey()


def pytest_sessionstart(session: pytest.Session) -> None:
    """A worker takes the directory that it was sent, and the name by which it knows what its fellows have begun."""
    sent = getattr(session.config, "workerinput", {})
    for name, key in _SENT.items():
        if name in sent:
            session.config.stash[key] = sent[name]


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``--dist=loadgroup`` gives the claims of one panel to one worker, so that one device has measured all of it."""
    for item in items:
        cells = item.stash[CLAIM].cells if CLAIM in item.stash else ()
        if cells:
            mode, workload = cells[0].panel
            item.add_marker(pytest.mark.xdist_group(f"{GROUP}{mode}-{workload}"))


def pytest_configure_node(node: Any) -> None:
    """The controller chooses the directory once and sends it with each worker's input.

    A session has a name that no other has: a directory that was begun before is not its own.
    """
    from pytest_specdec.places import new_run_dir

    config: pytest.Config = node.config
    if SETTINGS not in config.stash:
        config.stash[SETTINGS] = settings_of(config)
    if RUN_DIR not in config.stash:
        settings = config.stash[SETTINGS]
        config.stash[RUN_DIR] = str(settings.resume or settings.run_dir or new_run_dir(config.rootpath))
        config.stash[SESSION] = secrets.token_hex(8)
    node.workerinput.update({name: config.stash[key] for name, key in _SENT.items()})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """A worker has begun the run, which the controller shows once: it collects nothing and has no header else."""
    config: pytest.Config = node.config
    directory, terminal = Path(config.stash[RUN_DIR]), config.pluginmanager.getplugin("terminalreporter")
    if terminal is None or _SHOWN in config.stash or not (directory / "run.json").exists():
        return
    from pytest_specdec.header import header_lines
    from pytest_specdec.measure.ledger import Ledger

    config.stash[_SHOWN] = True
    for line in header_lines(Ledger(directory)):
        terminal.write_line(line)


def pytest_testnodedown(node: Any, error: object | None) -> None:
    """What a worker has to tell at its end, such as what it recorded or why it gave up, is told by the controller.

    So is that it wants the run red, as it must be where a worker dies with what it had still to record.
    """
    told, stash = getattr(node, "workeroutput", {}), node.config.stash
    if "specdec_error" in told:
        raise pytest.UsageError(told["specdec_error"])
    stash[NOTES] += told.get("specdec_notes", [])
    died = error is not None and bool(stash[VERDICTS])
    if died:
        stash[NOTES].append(f"the worker {node.gateway.id} died before it had told all ({error}): run again")
    if died or "specdec_red" in told:
        stash[RED] = stash.get(RED, False) or died or told["specdec_red"]
