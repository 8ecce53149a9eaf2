"""What stands before each turn of a conversation: what ``base`` has answered, or what the arm itself has drawn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_specdec.errors import ClientError
from pytest_specdec.measure.conversation import SCRIPT_BLOCK, Script
from pytest_specdec.measure.ledger import Ledger
from pytest_specdec.measure.runner import Bench
from pytest_specdec.records import Arm, CellKey, Generation, Json, Mode, Prompt, Workload
from pytest_specdec.server.process import AttachedServer
from tests.support import generation
from tests.web import Web, last, metrics, part, says, serving, streams

TURNS = tuple(Prompt(f"turn-{number}", f"Q{number}.") for number in (1, 2, 3))
REQUEST: Mapping[str, Json] = {"n_predict": 5, "temperature": 0.0}
BASE, ARM = (CellKey(Mode.SPEED, "session", arm) for arm in ("base", "dflash2"))


def workload(**more: Any) -> Workload:
    return Workload("session", TURNS, REQUEST, "sha", **{"conversation": True, "turn_end": "|", **more})


class Counted:
    """Servers of which each start is counted: all are the one at ``url``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.started: list[str] = []

    @contextmanager
    def running(self, arm: Arm, mode: Mode) -> Iterator[AttachedServer]:
        self.started.append(f"{mode}/{arm.name}")
        yield AttachedServer(arm.name, self.url)


class Panel:
    """A script with what it needs; the server answers A1., A2. and so on, and ``fails_at`` one of them."""

    def __init__(self, web: Web, run: Path) -> None:
        self.web = web
        self.ledger = Ledger(run)
        self.servers = Counted(web.url)
        self.generations: dict[CellKey, list[Generation]] = {BASE: [], ARM: []}

    def script(self, workload: Workload) -> Script:
        bench = Bench(
            warm_up_tokens=8,
            servers_of=lambda _role: cast("Any", self.servers),  # all of a server that a script asks for
            ledger=self.ledger,
            arm=Arm,
            stall_timeout_s=30.0,
            progress=lambda _words: None,
            station=lambda: pytest.fail("the text is read by no clock"),
        )
        return Script(workload, bench, self.generations)

    def asked(self) -> list[str]:
        return [json.loads(body)["prompt"] for body in self.web.bodies if body]


def answers(fails_at: int = 0) -> Any:
    """An action: one answer after the other, A1. and so on; the one at ``fails_at`` is refused."""
    given = 0

    def act(handler: BaseHTTPRequestHandler) -> None:
        nonlocal given
        given += 1
        if given == fails_at:
            says("no", status=500)(handler)
        else:
            streams(part(given, content=f"A{given}."), last(1))(handler)

    return act


@contextmanager
def panel(run: Path, fails_at: int = 0) -> Iterator[Panel]:
    actions = {"/completion": answers(fails_at), "/metrics": metrics((0, 0, 0, 0))}
    with serving(actions) as web:
        yield Panel(web, run)


def texts(script: Script, key: CellKey = ARM, block: int = 0) -> list[str]:
    return [script.text(turn, key, block) for turn in TURNS]


def test_prompts_that_are_no_turns_are_sent_as_they_are(tmp_path: Path) -> None:
    with panel(tmp_path) as made:
        script = made.script(workload(conversation=False))
        script.prepare(TURNS[2])
        assert texts(script) == ["Q1.", "Q2.", "Q3."]
        assert made.servers.started == []


def test_every_arm_reads_what_base_has_answered_once(tmp_path: Path) -> None:
    with panel(tmp_path) as made:
        script = made.script(workload())
        script.prepare(TURNS[2])
        script.prepare(TURNS[2])
        assert made.servers.started == ["speed/base"]
        wanted = ["Q1.", "Q1.A1.|Q2.", "Q1.A1.|Q2.A2.|Q3."]
        assert made.asked() == wanted[:2], "base itself is asked each turn behind its own answers"
        assert texts(script, ARM, 0) == texts(script, BASE, 7) == wanted


def test_what_base_has_answered_is_kept_apart_from_what_is_measured(tmp_path: Path) -> None:
    with panel(tmp_path) as made:
        made.script(workload()).prepare(TURNS[2])
        kept = made.ledger.generations(BASE)
    assert [(g.prompt_id, g.block, g.ordinal) for g in kept] == [
        ("turn-1", SCRIPT_BLOCK, 0),
        ("turn-2", SCRIPT_BLOCK, 1),
    ]


def test_a_run_that_goes_on_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    with panel(tmp_path, fails_at=2) as made:
        script = made.script(workload())
        with pytest.raises(ClientError, match="turn-2"):
            script.prepare(TURNS[2])
        again = made.script(workload())
        again.prepare(TURNS[2])
        assert made.asked() == ["Q1.", "Q1.A1.|Q2.", "Q1.A1.|Q2."]
        complete = made.script(workload())
        complete.prepare(TURNS[2])
        assert len(made.servers.started) == 2
        assert texts(complete) == texts(again)


def test_base_says_no_more_than_somebody_reads(tmp_path: Path) -> None:
    with panel(tmp_path) as made:
        script = made.script(workload())
        script.prepare(TURNS[0])
        assert made.asked() == []
        script.prepare(TURNS[1])
        assert made.asked() == ["Q1."]
        script.prepare(TURNS[2])
        assert made.asked() == ["Q1.", "Q1.A1.|Q2."]


def test_what_was_measured_of_base_is_no_part_of_the_script(tmp_path: Path) -> None:
    """Its replies in a block may have forked at a tie."""
    with panel(tmp_path) as made:
        made.generations[BASE] = [generation([9], cell=BASE, prompt_id="turn-1", block=0)]
        script = made.script(workload())
        script.prepare(TURNS[2])
        assert texts(script)[1] == "Q1.A1.|Q2."


def test_a_part_of_a_conversation_stands_behind_all_of_it(tmp_path: Path) -> None:
    """A claim about the last turn alone measures that one alone."""
    with panel(tmp_path) as made:
        script = made.script(workload(turn_end=""))
        script.prepare(TURNS[2])
        assert script.text(TURNS[2], ARM, 0) == "Q1.A1.Q2.A2.Q3."


def test_where_replies_are_sampled_each_arm_and_block_follows_on_its_own(tmp_path: Path) -> None:
    with panel(tmp_path) as made:
        script = made.script(workload(sampled=True))
        script.prepare(TURNS[2])
        assert made.servers.started == []
        assert texts(script, ARM, 0) == ["Q1.", "Q1.|Q2.", "Q1.|Q2.|Q3."], "nothing has been said yet"
        made.generations[ARM] += [
            generation([4], cell=ARM, prompt_id="turn-1", block=0),
            generation([5], cell=ARM, prompt_id="turn-2", block=0),
            generation([6], cell=ARM, prompt_id="turn-1", block=1),
        ]
        made.generations[BASE] += [generation([7], cell=BASE, prompt_id="turn-1", block=0)]
        assert texts(script, ARM, 0)[2] == "Q1.<4>|Q2.<5>|Q3."
        assert texts(script, ARM, 1)[1] == "Q1.<6>|Q2."
        assert texts(script, BASE, 0)[1] == "Q1.<7>|Q2."
