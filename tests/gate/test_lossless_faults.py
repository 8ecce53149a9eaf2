"""A fault between a drafted token and the client turns the right claim red, at the right place. On a real server."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.measure.ledger import Ledger
from pytest_specdec.measure.servers import LaunchedServers
from pytest_specdec.profile import compose, load
from pytest_specdec.records import Json, Mode
from pytest_specdec.server.build import locate
from pytest_specdec.server.client import Client
from suites.texts import CODE, GREEDY_LISTED
from tests.gate.faults.completion_faults import digest, parsed

ROOT = Path(__file__).parents[2]
FAULTY = ROOT / "tests" / "gate" / "faults" / "faulty_server.py"
ARM = "dflash2"
GREEDY = f"suites/test_lossless.py::test_greedy_output_is_that_of_the_target_alone[{ARM}]"
METRICS = f"suites/test_counters.py::test_timings_agree_with_metrics[{ARM}]"
LOGPROBS = f"suites/test_logprobs.py::test_log_probabilities_with_a_drafter[{ARM}]"

Verdicts = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny profile with few and short replies: what is proved here needs no more."""
    text = (ROOT / "pytest_specdec" / "profile" / "builtin" / "tiny.toml").read_text("utf-8")
    short = re.sub(r"\[workloads\.mixed\]\nn_predict = \d+", "[workloads.mixed]\nn_predict = 48\nprompts = 12", text)
    assert short != text
    path = tmp_path_factory.mktemp("profile") / "tiny.toml"
    path.write_text(short, "utf-8")
    return path


class Gate:
    """Runs claims in a pytest of their own, the way a user does."""

    def __init__(self, profile: Path, directory: Path) -> None:
        self._profile = profile
        self.run_dir = directory / "run"

    def verdicts(self, *arguments: str) -> Verdicts:
        words = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--specdec-quiet",
            f"--specdec-profile={self._profile}", f"--specdec-run-dir={self.run_dir}", *arguments,
        ]  # fmt: skip
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        results = self.run_dir / "results.json"
        assert results.exists(), done.stdout + done.stderr
        return {row["claim"]: row for row in json.loads(results.read_text("utf-8"))["verdicts"]}


@pytest.fixture
def gate(profile: Path, tmp_path: Path) -> Gate:
    return Gate(profile, tmp_path)


def _behind(fault: str) -> str:
    return f"--specdec-launcher={shlex.join([sys.executable, str(FAULTY), fault])}"


@pytest.mark.parametrize("fault", ["alter_token:7", "drop_token:7", "swap_events:7"])
def test_a_token_that_is_wrong_missing_or_late_is_named_with_its_position(gate: Gate, fault: str) -> None:
    verdict = gate.verdicts(_behind(fault), GREEDY)[f"lossless.greedy[{ARM}]"]
    assert (verdict["status"], verdict["reason"]) == ("fail", "tokens_differ")
    reaching = [prompt for prompt, tokens in _tokens(gate.run_dir, "base").items() if len(tokens) > 7]
    assert [loss["prompt"] for loss in verdict["evidence"]["losses"]] == reaching
    assert {loss["position"] for loss in verdict["evidence"]["losses"]} == {7}


def test_a_lossy_server_is_red(gate: Gate) -> None:
    verdict = gate.verdicts("--specdec-arm-args=--spec-synth-len 2", GREEDY)[f"lossless.greedy[{ARM}]"]
    assert (verdict["status"], verdict["reason"]) == ("fail", "tokens_differ")
    base, other = (_tokens(gate.run_dir, name) for name in ("base", ARM))
    for loss in verdict["evidence"]["losses"]:
        pairs = zip(base[loss["prompt"]], other[loss["prompt"]], strict=False)
        assert loss["position"] == next(n for n, (mine, theirs) in enumerate(pairs) if mine != theirs)


def test_a_counter_that_is_off_by_one(gate: Gate) -> None:
    verdict = gate.verdicts(_behind("misreport_accepted"), METRICS)[f"counters.metrics[{ARM}]"]
    assert (verdict["status"], verdict["reason"]) == ("fail", "counters_disagree")


@pytest.mark.parametrize(
    ("claim", "test"),
    [
        ("counters.repeat[dflash2+k4v]", "test_counters.py::test_the_same_request_has_the_same_counters[dflash2+k4v]"),
        ("drafting.after_long[base+k4v]", "test_drafting.py::test_a_short_request_after_a_long_one[base+k4v]"),
        ("drafting.warm[base+k4v]", "test_drafting.py::test_the_same_request_cold_and_warm[base+k4v]"),
        ("drafting.warm[dflash2@16]", "test_drafting.py::test_the_same_request_cold_and_warm[dflash2@16]"),
    ],
)
def test_tokens_that_a_server_remembers_wrongly_are_no_known_deviation(gate: Gate, claim: str, test: str) -> None:
    """Some of these are known to have other counters. Other tokens are another matter."""
    verdict = gate.verdicts(_behind("alter_later:20"), f"suites/{test}")[claim]
    assert (verdict["status"], verdict["reason"]) == ("fail", "tokens_differ")


def test_a_wrong_token_from_the_cache_is_found_by_the_property(gate: Gate) -> None:
    test = f"suites/test_lossless_properties.py::test_any_request[{ARM}]"
    verdict = gate.verdicts(_behind("alter_warm:3"), test)[f"lossless.any_request[{ARM}]"]
    assert (verdict["status"], verdict["reason"]) == ("fail", "tokens_differ")


def test_a_reply_that_loses_more_than_a_draft_at_the_edge_is_no_known_deviation(gate: Gate) -> None:
    test = f"suites/test_context.py::test_up_to_the_edge[{ARM}+mod]"
    verdict = gate.verdicts(_behind("keep_tokens:12"), test)[f"context.edge[{ARM}+mod]"]
    assert (verdict["status"], verdict["reason"]) == ("fail", "length_differs")
    assert "more than a draft brought" in verdict["measured"]


def test_a_near_tie_of_a_live_server_is_a_tie(gate: Gate, tmp_path: Path) -> None:
    """As above with the noise of a coarser device, for a claim that does not ask again."""
    test = f"suites/test_streams.py::test_a_request_after_one_that_was_cut_off[{ARM}]"
    position, second, gap = _closest_gap_alone(tmp_path, CODE, tokens=32)
    noise = {"largest_nats": gap * 0.501, "mean_nats": 0.0, "positions": 2000, "flips": 0, "unscored": 0, "widths": [8]}
    gate.run_dir.mkdir()
    coarse = json.dumps({"verification": noise, "large_batch": {**noise, "widths": []}})
    (gate.run_dir / "noise.json").write_text(coarse, "utf-8")
    verdict = gate.verdicts(_behind(f"force_token:{position}:{second}:{digest(CODE)}"), test)[f"stream.cut_off[{ARM}]"]
    assert (verdict["status"], verdict["reason"]) == ("pass", "held"), verdict["detail"]
    assert {(tie["position"], tie["other_token"]) for tie in verdict["evidence"]["ties"]} == {(position, second)}


def test_log_probabilities_that_are_left_out_are_no_known_deviation(gate: Gate) -> None:
    verdict = gate.verdicts(_behind("omit_logprobs"), LOGPROBS)[f"logprobs.same[{ARM}]"]
    assert (verdict["status"], verdict["reason"]) == ("fail", "logprobs_missing")


def test_a_second_choice_a_tenth_of_a_nat_away_is_no_tie(gate: Gate, profile: Path, tmp_path: Path) -> None:
    healthy = Gate(profile, tmp_path / "healthy")
    assert healthy.verdicts(GREEDY)[f"lossless.greedy[{ARM}]"]["status"] == "pass"
    prompt, position, second, gap = _closest_gap(healthy.run_dir, wanted=0.1)
    assert 0.02 < gap < 0.3
    fault = f"force_token:{position}:{second}:{digest(prompt)}"
    verdict = gate.verdicts(_behind(fault), GREEDY)[f"lossless.greedy[{ARM}]"]
    assert (verdict["status"], verdict["reason"]) == ("fail", "tokens_differ")
    (loss,) = verdict["evidence"]["losses"]
    assert (loss["position"], loss["other_token"], loss["base_second_token"]) == (position, second, second)
    assert loss["gap_nats"] == pytest.approx(gap)
    assert verdict["evidence"]["noise_bound_nats"] < gap


def test_behind_a_tie_the_check_goes_on_with_a_live_server(gate: Gate, profile: Path, tmp_path: Path) -> None:
    """With the noise of a coarser device the same difference is a tie, and what follows it is asked for anew."""
    healthy = Gate(profile, tmp_path / "healthy")
    healthy.verdicts(GREEDY)
    prompt, position, second, gap = _closest_gap(healthy.run_dir, wanted=0.1, complete=True)
    noise = json.loads((healthy.run_dir / "noise.json").read_text("utf-8"))
    gate.run_dir.mkdir()
    coarser = {**noise, "verification": {**noise["verification"], "largest_nats": gap * 0.6}}
    (gate.run_dir / "noise.json").write_text(json.dumps(coarser), "utf-8")
    fault = f"force_token:{position}:{second}:{digest(prompt)}"
    verdict = gate.verdicts(_behind(fault), GREEDY)[f"lossless.greedy[{ARM}]"]
    assert (verdict["status"], verdict["reason"]) == ("pass", "held")
    (tie,) = verdict["evidence"]["ties"]
    assert (tie["position"], tie["other_token"]) == (position, second)
    # The base, its noise, the arm, and the arm once more behind the tie.
    assert sum(ARM in log.name for log in (gate.run_dir / "logs").iterdir()) == 2


def test_samples_of_a_lossy_server_are_drawn_from_another_distribution(gate: Gate) -> None:
    claim = f"sampling.distribution[{ARM}]"
    test = f"suites/test_sampling.py::test_the_distribution_of_sampled_tokens[{ARM}]"
    verdict = gate.verdicts("--specdec-arm-args=--spec-synth-len 3", test)[claim]
    assert (verdict["status"], verdict["reason"]) == ("fail", "distribution_differs")


def test_a_property_test_shrinks_to_a_command_that_can_be_pasted(gate: Gate) -> None:
    test = f"suites/test_lossless_properties.py::test_any_request[{ARM}]"
    verdict = gate.verdicts(_behind("alter_token:3"), test)[f"lossless.any_request[{ARM}]"]
    assert (verdict["status"], verdict["reason"]) == ("fail", "tokens_differ")
    assert verdict["measured"].startswith("token 3 is")
    server, *requests = verdict["evidence"]["commands"].splitlines()
    assert "--spec-type draft-dflash" in server
    assert "--port 8080" in server
    assert 1 <= len(requests) <= 2
    assert all(request.startswith("curl -s http://127.0.0.1:8080/completion") for request in requests)


def test_faults_join() -> None:
    fault = parsed("alter_token:0+misreport_accepted")
    events: list[dict[str, Json]] = [
        {"tokens": [4], "stop": False},
        {"tokens": [], "stop": True, "timings": {"draft_n_accepted": 2}},
    ]
    changed = list(fault.events({}, iter(events)))
    assert changed == [
        {"tokens": [5], "stop": False},
        {"tokens": [], "stop": True, "timings": {"draft_n_accepted": 3}},
    ]


def _generations(run_dir: Path, arm: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run_dir / "generations.jsonl").read_text("utf-8").splitlines()]
    return [row for row in rows if row["cell"]["arm"] == arm]


def _tokens(run_dir: Path, arm: str) -> dict[str, list[int]]:
    return {row["prompt_id"]: row["tokens"] for row in _generations(run_dir, arm)}


def _closest_gap(run_dir: Path, wanted: float, complete: bool = False) -> tuple[str, int, int, float]:
    """Prompt text, position, second token and gap of the base's position whose gap is nearest to ``wanted``.

    Only a ``complete`` reply, of which the stream left out no token, can be taken up in its middle.
    """
    data = ROOT / "pytest_specdec" / "workloads" / "data" / "mixed.json"
    texts = {row["id"]: row["text"] for row in json.loads(data.read_text("utf-8"))["prompts"]}
    found = [
        (abs(second["gap_nats"] - wanted), texts[row["prompt_id"]], position, second["token"], second["gap_nats"])
        for row in _generations(run_dir, "base")
        if not complete or len(row["tokens"]) == row["timings"]["predicted_n"]
        for position, second in enumerate(row["alternatives"])
        if second["gap_nats"] is not None
    ]
    return min(found)[1:]


def _closest_gap_alone(directory: Path, text: str, tokens: int) -> tuple[int, int, float]:
    """Position, second token and gap where the target alone is the least sure of itself."""
    profile = load("tiny")
    servers = LaunchedServers(locate("embedded"), profile, Ledger(directory / "alone"))
    try:
        opened = servers.running(compose(profile, "base"), Mode.EXACT)
        with opened as server, Client(server, profile.stall_timeout_s) as client:
            reply = client.stream(text, {**GREEDY_LISTED, "n_predict": tokens})
    finally:
        servers.close()
    second = min(reply.alternatives, key=lambda alternative: alternative.gap_nats)
    return reply.alternatives.index(second), second.token, second.gap_nats
