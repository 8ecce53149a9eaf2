"""The gate turns red for the right reason: what a lossy, crippled, edited or dying setup looks like to its user.

These run the project's own suites, in a process of their own, as a user does in a checkout.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.places import packaged
from tests.support import build_with_fault, executable, gate, new_run, results_of, servers_of, small_profile

LOSSLESS, ACCEPTANCE, WIDTH = "suites/test_lossless.py", "suites/test_acceptance.py", "suites/test_width.py"
NATIVE_OLD = os.environ.get("SPECDEC_NATIVE_OLD")  # read before the tests take all such settings away
SCREEN = 60  # lines that a reader can take in at once
ONE_CLAIM = ("suites/test_counters.py", "-k", "timings_agree")

REFUSES_DFLASH2 = """
if any("dflash2" in word for word in arguments):
    print("llama_model_load: error loading model: done_getting_tensors: wrong number of tensors; expected 36, got 28",
          file=sys.stderr)
    sys.exit(1)
"""
NEVER_HEALTHY = """
if "--model" in arguments:
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Loading(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(503, "Loading model")

        def log_message(self, *words):
            pass

    print("still loading", flush=True)
    HTTPServer(("127.0.0.1", int(arguments[arguments.index("--port") + 1])), Loading).serve_forever()
"""
# A server before the server: it hands every byte on, and kills both in the middle of the second reply.
DIES_MID_STREAM = """
if "--model" in arguments:
    import signal, socket, subprocess, threading

    place = arguments.index("--port") + 1
    front = socket.create_server(("127.0.0.1", int(arguments[place])))
    behind = socket.create_server(("127.0.0.1", 0))
    arguments[place] = str(behind.getsockname()[1])
    behind.close()
    server = subprocess.Popen([*embedded, *arguments])
    asked = 0

    def hand_on(source, sink, reply):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
                if reply and asked >= 2 and b"data: " in data:
                    print("GGML_ASSERT(n_tokens > 0) failed", flush=True)
                    server.kill()
                    os.kill(os.getpid(), signal.SIGABRT)
        except OSError:
            pass  # the other direction has closed it
        sink.close()

    while True:
        client, _ = front.accept()
        try:
            upstream = socket.create_connection(("127.0.0.1", int(arguments[place])))
        except OSError:
            client.close()  # not ready yet
            continue
        first = client.recv(65536)
        asked += first.startswith(b"POST /completion")
        upstream.sendall(first)
        threading.Thread(target=hand_on, args=(client, upstream, False), daemon=True).start()
        threading.Thread(target=hand_on, args=(upstream, client, True), daemon=True).start()
"""


class Judged:
    """A run of the gate that is expected to be red."""

    def __init__(self, directory: Path, *arguments: str | Path, profile: Path | None = None) -> None:
        self.run = new_run(directory)
        done = gate(
            f"--specdec-run-dir={self.run}", f"--specdec-profile={profile or small_profile(directory)}", *arguments
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        assert self.code != 0, self.out
        assert "Traceback" not in self.out + self.err, self.out + self.err
        assert "INTERNALERROR" not in self.out + self.err
        assert not servers_of(self.run)

    @property
    def verdicts(self) -> dict[str, Any]:
        return results_of(self.run)

    def refused(self, *words: str) -> None:
        """Ended before anything was measured, with a message of one screen that has these words."""
        assert self.code == pytest.ExitCode.USAGE_ERROR, self.out + self.err
        assert len(self.err.splitlines()) < SCREEN
        assert "remedy:" in self.err
        for word in words:
            assert word in self.err, self.err

    def told(self, *words: str) -> None:
        """Judged red, with a message of one screen that has these words."""
        assert self.code == pytest.ExitCode.TESTS_FAILED, self.out + self.err
        assert len(self.out.splitlines()) < 2 * SCREEN, self.out
        for word in words:
            assert word in self.out, self.out


def recorded(directory: Path) -> Path:
    """A folder of baselines with what the embedded server does today with the small profile."""
    folder = directory / "baselines"
    folder.mkdir()
    shutil.copy(packaged("baselines") / "any.json", folder)
    done = gate(
        ACCEPTANCE, "-k", "as_recorded", f"--specdec-profile={small_profile(directory)}",
        f"--specdec-run-dir={new_run(directory)}", f"--specdec-baselines={folder}", "--specdec-update-baseline",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def own_baselines(baselines: Path, tmp_path: Path) -> Path:
    """A copy that may be spoilt."""
    return Path(shutil.copytree(baselines, tmp_path / "baselines"))


def test_a_lossy_server_is_caught_and_the_token_named(tmp_path: Path) -> None:
    red = Judged(
        tmp_path, LOSSLESS, ACCEPTANCE, "-m", "dflash2 and (lossless or exact)", "-k", "greedy or as_recorded",
        "--specdec-arm-args=--spec-synth-len 2", profile=small_profile(tmp_path, prompts=8, n_predict=64),
    )  # fmt: skip
    lossless = red.verdicts["lossless.greedy[dflash2]"]
    assert (lossless["status"], lossless["reason"]) == ("fail", "tokens_differ")
    loss = lossless["evidence"]["losses"][0]
    assert loss["base_token"] != loss["other_token"]
    assert f"token {loss['other_token']} for token {loss['base_token']}" in lossless["detail"] + lossless["measured"]
    acceptance = red.verdicts["tokens_per_cycle[dflash2]"]
    assert (acceptance["status"], acceptance["reason"]) == ("void", "synthetic_acceptance")
    red.told(
        "FAIL (tokens_differ): lossless.greedy[dflash2]", f"at token {loss['position']}", "VOID (synthetic_acceptance)"
    )


def test_the_same_without_the_flag_is_green(tmp_path: Path) -> None:
    profile = small_profile(tmp_path, prompts=8, n_predict=64)
    done = gate(
        LOSSLESS, ACCEPTANCE, "-m", "dflash2 and (lossless or exact)", "-k", "greedy or as_recorded",
        f"--specdec-profile={profile}", f"--specdec-run-dir={new_run(tmp_path)}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_a_flag_that_the_build_does_not_know_is_refused(tmp_path: Path) -> None:
    Judged(tmp_path, ACCEPTANCE, "--specdec-arm-args=--spec-synth-lenght 2").refused("--spec-synth-lenght", "--help")


def test_a_build_that_cannot_load_the_drafter_has_lost_the_arm(tmp_path: Path, baselines: Path) -> None:
    build = build_with_fault(tmp_path, REFUSES_DFLASH2)
    red = Judged(
        tmp_path, ACCEPTANCE, WIDTH, "-m", "exact", f"--llama-server={build}", f"--specdec-baselines={baselines}"
    )
    lost = [row for row in red.verdicts.values() if row["reason"] == "arm_lost"]
    assert lost
    assert {row["status"] for row in lost} == {"fail"}
    assert not [row for row in red.verdicts.values() if row["status"] == "pass"]
    red.told("FAIL (arm_lost)", "wrong number of tensors", "has records of this arm")


def test_published_values_are_reason_enough_to_expect_the_judged_arms(tmp_path: Path) -> None:
    """A profile for a large card has no records here, only what was published."""
    stored = tmp_path / "stored" / "small"
    stored.mkdir(parents=True)
    text = (packaged("baselines") / "tiny" / "reference.json").read_text("utf-8")
    (stored / "reference.json").write_text(text.replace('"profile": "tiny"', '"profile": "small"'), "utf-8")
    build = build_with_fault(tmp_path, REFUSES_DFLASH2)
    red = Judged(tmp_path, *ONE_CLAIM, f"--llama-server={build}", f"--specdec-baselines={stored.parent}")
    assert {(row["status"], row["reason"]) for row in red.verdicts.values()} == {("fail", "arm_lost")}
    red.told("the profile small judges this arm", "wrong number of tensors")


def test_without_a_record_of_the_arm_it_is_not_judged_and_that_is_red_too(tmp_path: Path) -> None:
    build = build_with_fault(tmp_path, REFUSES_DFLASH2)
    red = Judged(tmp_path, *ONE_CLAIM, f"--llama-server={build}")
    assert {(row["status"], row["reason"]) for row in red.verdicts.values()} == {("not judged", "arm_unavailable")}
    red.told("NOT JUDGED", "wrong number of tensors", "nothing was judged", "use a build that can run it")


@pytest.mark.skipif(not NATIVE_OLD, reason="SPECDEC_NATIVE_OLD names no llama-server from before DFlash 2, say b10499")
def test_a_native_build_from_before_dflash2_has_lost_the_arm(tmp_path: Path, baselines: Path) -> None:
    red = Judged(tmp_path, *ONE_CLAIM, f"--llama-server={NATIVE_OLD}", f"--specdec-baselines={baselines}")
    assert {(row["status"], row["reason"]) for row in red.verdicts.values()} == {("fail", "arm_lost")}
    red.told("wrong number of tensors")


def test_an_edited_baseline_is_a_failure_with_both_numbers(tmp_path: Path, own_baselines: Path) -> None:
    path = own_baselines / "small" / "cpu.json"
    document = json.loads(path.read_text("utf-8"))
    entry = document["entries"]["tokens_per_cycle[dflash2]"]
    was, entry["value"] = entry["value"], 9.75
    path.write_text(json.dumps(document), "utf-8")
    red = Judged(tmp_path, ACCEPTANCE, "-k", "as_recorded", f"--specdec-baselines={own_baselines}")
    verdict = red.verdicts["tokens_per_cycle[dflash2]"]
    assert (verdict["status"], verdict["reason"]) == ("fail", "record_moved")
    red.told(f"{was:.3f}", "9.750")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "empty"),
        ('{"schema": 1, "profile": "small", "dev', "not JSON"),
        ('{"schema": 99, "profile": "small", "device": "cpu", "entries": {}}', "99"),
        ('{"schema": 1, "profile": "small", "device": "gpu", "entries": {}}', "'gpu'"),
        ('{"schema": 1, "profile": "small", "device": "cpu", "entires": {}}', "did you mean 'entries'?"),
    ],
    ids=["empty", "truncated", "newer", "of another device", "misspelt"],
)
def test_a_baseline_that_cannot_be_trusted_ends_the_run_and_stays_as_it_is(
    tmp_path: Path, own_baselines: Path, content: str, why: str
) -> None:
    path = own_baselines / "small" / "cpu.json"
    path.write_text(content, "utf-8")
    Judged(tmp_path, *ONE_CLAIM, f"--specdec-baselines={own_baselines}", "--specdec-update-baseline").refused(
        str(path), why
    )
    assert path.read_text("utf-8") == content


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    profile = small_profile(tmp_path, '[models]\ndflash2 = "nowhere/drafter.gguf"\n')
    Judged(tmp_path, "suites", "-m", "dflash2", profile=profile).refused("nowhere/drafter.gguf", "LLAMA_CACHE")


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "count"])
def test_a_corrupt_model_is_refused(tmp_path: Path, damage: str) -> None:
    whole = (packaged("models") / "target.gguf").read_bytes()
    content = {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "text": b"<html>404</html>",
        "count": whole[:8] + struct.pack("<Q", 2**40) + whole[16:],
    }[damage]
    (tmp_path / "target.gguf").write_bytes(content)
    profile = small_profile(tmp_path, '[models]\ntarget = "target.gguf"\n')
    Judged(tmp_path, *ONE_CLAIM, profile=profile).refused("target.gguf", "download or export the file again")


@pytest.mark.parametrize("code", [0, 3])
def test_a_program_that_is_no_server_is_refused(tmp_path: Path, code: int) -> None:
    program = executable(tmp_path / "program", f"import sys; sys.exit({code})")
    Judged(tmp_path, *ONE_CLAIM, f"--llama-server={program}").refused(str(program), "is it a llama-server")


@pytest.mark.parametrize("code", [0, 3])
def test_a_server_that_exits_at_once_is_told(tmp_path: Path, code: int) -> None:
    build = build_with_fault(tmp_path, f'print("no device found", flush=True)\nsys.exit({code})')
    red = Judged(tmp_path, LOSSLESS, "-k", "greedy", f"--llama-server={build}")
    assert {(row["status"], row["reason"]) for row in red.verdicts.values()} == {("void", "server_failed")}
    red.told(f"it ended with code {code} before it was ready", "| no device found", "run the same command by hand")


def test_a_server_that_never_gets_healthy_is_told(tmp_path: Path) -> None:
    build = build_with_fault(tmp_path, NEVER_HEALTHY)
    profile = small_profile(tmp_path, "[server]\nready_timeout_s = 3\n")
    red = Judged(tmp_path, *ONE_CLAIM, f"--llama-server={build}", profile=profile)
    assert {row["reason"] for row in red.verdicts.values()} == {"server_failed"}
    red.told("did not answer 200 within 3 s; last: HTTP 503", "| still loading", "server.ready_timeout_s")


def test_a_server_that_dies_mid_stream_is_told(tmp_path: Path) -> None:
    build = build_with_fault(tmp_path, DIES_MID_STREAM)
    red = Judged(tmp_path, *ONE_CLAIM, f"--llama-server={build}")
    (verdict,) = red.verdicts.values()
    assert (verdict["status"], verdict["reason"]) == ("fail", "server_died")
    red.told(
        "the server ended with code -6 during the request", "asking the server of arm dflash2 for prompt", "GGML_ASSERT"
    )


def test_a_taken_port_is_told(tmp_path: Path) -> None:
    taken = 'arguments[arguments.index("--port") + 1] = str(occupied.getsockname()[1])'
    build = build_with_fault(
        tmp_path,
        f"""
        if "--model" in arguments:
            import socket, subprocess
            occupied = socket.create_server(("127.0.0.1", 0))
            {taken}
            sys.exit(subprocess.call([*embedded, *arguments]))
        """,
    )
    red = Judged(tmp_path, *ONE_CLAIM, f"--llama-server={build}")
    assert {(row["status"], row["reason"]) for row in red.verdicts.values()} == {("void", "server_failed")}
    red.told("its port was already in use", "run again")
