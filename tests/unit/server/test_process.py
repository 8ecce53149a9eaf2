"""Spawning, readiness and stopping, with real processes that do what the test says."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psutil
import pytest

from pytest_specdec.errors import NeverReadyError, PortTakenError, ServerError, ServerExitedError
from pytest_specdec.server.environment import environment_of_run
from pytest_specdec.server.facts import build_info
from pytest_specdec.server.process import (
    AttachedServer,
    LaunchedServer,
    Warden,
    new_api_key,
    pick_port,
    spawn,
    wait_until_ready,
)
from tests.support import PATIENCE_S, clean_environment, eventually
from tests.web import says, serving

HEALTHY = """
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *words):
            pass

    server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print("listening", flush=True)
    server.serve_forever()
"""


@pytest.fixture
def warden() -> Iterator[Warden]:
    made = Warden()
    yield made
    made.close()


class Starter:
    """Starts Python programs as servers and ends what a test leaves."""

    def __init__(self, directory: Path, warden: Warden) -> None:
        self._directory = directory
        self._warden = warden
        self.started: list[LaunchedServer] = []

    def __call__(
        self, program: str, *, stop_timeout_s: float = PATIENCE_S, environment: Mapping[str, str] | None = None
    ) -> LaunchedServer:
        port, api_key = pick_port(), new_api_key()
        code = "import os, signal, subprocess, sys, time\n" + textwrap.dedent(program)
        server = spawn(
            [sys.executable, "-c", code, str(port), "--api-key", api_key],
            arm="dflash2",
            port=port,
            api_key=api_key,
            environment=environment or {},
            log_path=self._directory / "logs" / f"{len(self.started)}.log",
            stop_timeout_s=stop_timeout_s,
            warden=self._warden,
        )
        self.started.append(server)
        return server


@pytest.fixture
def start(tmp_path: Path, warden: Warden) -> Iterator[Starter]:
    starter = Starter(tmp_path, warden)
    yield starter
    for server in starter.started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.stop()


def wait_for(server: LaunchedServer, word: str) -> None:
    assert eventually(lambda: word in server.log() or server.exit_code() is not None)
    assert server.exit_code() is None, server.log()


def test_it_starts_gets_ready_serves_and_stops(start: Starter) -> None:
    server = start(HEALTHY)
    wait_until_ready(server, PATIENCE_S, "starting it")
    assert server.exit_code() is None
    assert server.log() == "listening\n"
    server.stop()
    assert server.exit_code() == -signal.SIGTERM
    assert not psutil.pid_exists(server.pid)
    server.stop()  # a second time is no mistake


def test_the_key_is_not_shown(start: Starter) -> None:
    server = start(HEALTHY)
    assert server.arguments[-2:] == ("--api-key", "***")
    assert server.api_key not in repr(server.arguments)


def test_it_has_a_process_group_of_its_own_and_reads_nothing(start: Starter) -> None:
    server = start('print(os.getpgid(0), sys.stdin.read() == "", flush=True)\ntime.sleep(600)')
    wait_for(server, "\n")
    assert server.log().split() == [str(server.pid), "True"]
    assert os.getpgid(0) != server.pid


@pytest.mark.parametrize(
    ("program", "how", "code"),
    [
        ('print("all done")', "with code 0", 0),
        ('print("all done"); sys.exit(3)', "with code 3", 3),
        ('print("all done", flush=True); os.kill(os.getpid(), signal.SIGABRT)', "by SIGABRT", -6),
    ],
)
def test_any_end_before_readiness_is_an_error(start: Starter, program: str, how: str, code: int) -> None:
    with pytest.raises(ServerExitedError) as caught:
        wait_until_ready(start(program), PATIENCE_S, "starting server --port 1")
    assert caught.value.exit_code == code
    told = str(caught.value)
    for words in ("starting server --port 1", f"it ended {how} before it was ready", "| all done", "remedy: "):
        assert words in told


def test_only_the_end_of_a_long_log_is_shown(start: Starter) -> None:
    with pytest.raises(ServerExitedError) as caught:
        wait_until_ready(start('for n in range(1000): print(f"line {n}")'), PATIENCE_S, "starting it")
    assert "| line 999" in str(caught.value)
    assert len(str(caught.value).splitlines()) < 25


def test_a_log_that_is_not_text_is_shown_as_well_as_it_goes(start: Starter) -> None:
    with pytest.raises(ServerExitedError) as caught:
        wait_until_ready(start(r'sys.stdout.buffer.write(b"\xff\xfe fine\n")'), PATIENCE_S, "starting it")
    assert "fine" in str(caught.value)


def test_one_that_never_listens_is_given_up(start: Starter) -> None:
    server = start('print("thinking", flush=True)\ntime.sleep(600)')
    wait_for(server, "thinking")
    with pytest.raises(NeverReadyError) as caught:
        wait_until_ready(server, 0.5, "starting it")
    told = str(caught.value)
    for words in (
        "/health did not answer 200 within 0.5 s; last: ConnectError",
        "| thinking",
        "server.ready_timeout_s",
    ):
        assert words in told


def test_one_that_answers_but_never_well_is_given_up() -> None:
    with serving({"/health": says('{"error": "Loading model"}', status=503)}) as web:
        with pytest.raises(NeverReadyError, match=r"last: HTTP 503: .*Loading model") as caught:
            wait_until_ready(AttachedServer("base", web.url), 0.3, "reaching it")
        assert "look at the log" not in str(caught.value)
        assert len(web.asked) > 1


def test_one_that_accepts_and_says_nothing_does_not_hold_the_deadline_up(start: Starter) -> None:
    server = start("""
        import socket
        listening = socket.create_server(("127.0.0.1", int(sys.argv[1])))
        print("listening", flush=True)
        time.sleep(600)
    """)
    wait_for(server, "listening")
    with pytest.raises(NeverReadyError, match="ReadTimeout"):
        wait_until_ready(server, 1.0, "starting it")


def test_a_port_that_was_taken_is_no_fault_of_the_build(start: Starter) -> None:
    server = start("""print("E srv start: couldn't bind HTTP server socket, port: 8080"); sys.exit(1)""")
    with pytest.raises(PortTakenError, match="its port was already in use"):
        wait_until_ready(server, PATIENCE_S, "starting it")


def test_a_stranger_on_the_port_is_not_taken_for_the_server(tmp_path: Path, warden: Warden) -> None:
    actions = {"/health": says('{"status": "ok"}'), "/props": says("Invalid API Key", status=401)}
    with serving(actions) as stranger:
        program = "import time; time.sleep(1); print('Address already in use'); raise SystemExit(1)"
        server = spawn(
            [sys.executable, "-c", program], arm="base", port=stranger.port, api_key=new_api_key(), environment={},
            log_path=tmp_path / "log", stop_timeout_s=PATIENCE_S, warden=warden,
        )  # fmt: skip
        with pytest.raises(PortTakenError):
            wait_until_ready(server, PATIENCE_S, "starting it")
        assert "GET /props" in stranger.asked
        server.stop()


def test_a_program_that_does_not_exist_is_named(tmp_path: Path, warden: Warden) -> None:
    with pytest.raises(ServerError) as caught:
        spawn(
            ["no-such-program", "--api-key", "the-key"], arm="base", port=1, api_key="the-key", environment={},
            log_path=tmp_path / "log", stop_timeout_s=1, warden=warden,
        )  # fmt: skip
    assert "no-such-program --api-key ***" in str(caught.value)
    assert "the-key" not in str(caught.value)


def test_one_that_ignores_the_polite_signal_is_killed(start: Starter) -> None:
    server = start(
        'signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint("deaf", flush=True)\ntime.sleep(600)', stop_timeout_s=0.3
    )
    wait_for(server, "deaf")
    server.stop()
    assert server.exit_code() == -signal.SIGKILL


def test_the_children_of_a_launcher_are_stopped_with_it(start: Starter) -> None:
    server = start("""
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print("child", child.pid, flush=True)
        time.sleep(600)
    """)
    wait_for(server, "child")
    child = int(server.log().split()[1])
    server.stop()
    assert eventually(lambda: not _lives(child))


def test_so_are_those_that_a_launcher_left_behind(start: Starter) -> None:
    server = start("""
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print("child", child.pid, flush=True)
    """)
    assert eventually(lambda: server.exit_code() == 0)
    child = int(server.log().split()[1])
    assert _lives(child)
    server.stop()
    assert eventually(lambda: not _lives(child))


# It is started in a session of its own, and so in another process group, with the key as every server is.
ESCAPED = """
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" if {deaf} else "pass"
    program = "import time\\nprint('up', flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", deaf + "; " + program, *sys.argv[1:]], start_new_session=True)
    print("child", child.pid, flush=True)
    {then}
"""


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("then", ["sys.exit(child.wait())", "sys.exit(0)"], ids=["waits", "leaves it behind"])
def test_a_launcher_may_open_a_session_of_its_own(start: Starter, then: str, deaf: bool) -> None:
    """Such as ``setsid -w``, and ``setsid`` alone."""
    server = start(ESCAPED.format(deaf=deaf, then=then), stop_timeout_s=0.3 if deaf else PATIENCE_S)
    bystander = start(ESCAPED.format(deaf=False, then="sys.exit(child.wait())"))
    assert eventually(lambda: "up" in server.log() and "up" in bystander.log())
    assert then != "sys.exit(0)" or eventually(lambda: server.exit_code() == 0)
    child, other = (psutil.Process(int(one.log().replace("up", "").split()[1])) for one in (server, bystander))
    server.stop()
    assert not _lives(child.pid)
    assert _lives(other.pid)


def test_the_warden_ends_what_its_owner_left_running(tmp_path: Path) -> None:
    """The owner is killed, the hard way; its server, deaf to SIGTERM, is ended all the same."""
    owner = f"""
        import os, signal, sys, time
        from pathlib import Path
        from pytest_specdec.server.process import Warden, spawn
        deaf = "from signal import *; import time; signal(SIGTERM, SIG_IGN); print('up', flush=True); time.sleep(600)"
        log = Path({str(tmp_path)!r}) / "log"
        server = spawn([sys.executable, "-c", deaf], arm="a", port=1, api_key="k", environment={{}}, log_path=log,
                       stop_timeout_s=1, warden=Warden())
        while "up" not in server.log():
            time.sleep(0.01)
        print(server.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(owner)], env=clean_environment(), stdout=subprocess.PIPE, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert eventually(lambda: not _lives(int(done.stdout)))


def test_the_warden_leaves_alone_what_it_was_told_to_forget() -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    warden = Warden()
    try:
        warden.watch(bystander.pid)
        warden.forget(bystander.pid)
        warden.close()
        warden.forget(bystander.pid)  # told after its end: no mistake
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_only_what_is_allowed_reaches_a_server() -> None:
    given = {
        "PATH": "/bin", "HOME": "/home/me", "LD_LIBRARY_PATH": "/lib", "LC_ALL": "C", "CUDA_VISIBLE_DEVICES": "1",
        "OMP_NUM_THREADS": "2", "LLAMA_CACHE": "/models", "PYTHONPATH": "/src", "GGML_CUDA_FORCE_MMQ": "1",
        "LLAMA_ARG_CTX_SIZE": "7", "LLAMA_ARG_SPEC_TYPE": "none", "LLAMA_SERVER_DEBUG_FAKE_TIMING": "1",
        "LLAMA_API_KEY": "secret", "HF_TOKEN": "secret", "AWS_SECRET_ACCESS_KEY": "secret", "GITHUB_TOKEN": "secret",
        "SPECDEC_RUN_ID": "another", "http_proxy": "http://proxy", "PYTEST_CURRENT_TEST": "this",
    }  # fmt: skip
    assert environment_of_run(given, "run-1") == {
        "PATH": "/bin", "HOME": "/home/me", "LD_LIBRARY_PATH": "/lib", "LC_ALL": "C", "CUDA_VISIBLE_DEVICES": "1",
        "OMP_NUM_THREADS": "2", "LLAMA_CACHE": "/models", "PYTHONPATH": "/src", "GGML_CUDA_FORCE_MMQ": "1",
        "GGML_NO_BACKTRACE": "1", "SPECDEC_RUN_ID": "run-1",
    }  # fmt: skip
    assert environment_of_run({"GGML_NO_BACKTRACE": "0"}, "r")["GGML_NO_BACKTRACE"] == "0"


def test_the_server_sees_that_environment_and_nothing_else(start: Starter) -> None:
    given = {"PATH": os.environ["PATH"], "LLAMA_ARG_CTX_SIZE": "7", "LLAMA_SERVER_DEBUG_FAKE_TIMING": "1"}
    server = start(
        'print(*sorted(os.environ), "end", flush=True)\ntime.sleep(600)',
        environment=environment_of_run(given, "run-1"),
    )
    wait_for(server, "end")
    assert {"GGML_NO_BACKTRACE", "PATH", "SPECDEC_RUN_ID"} == set(server.log().split()) - {"end", "LC_CTYPE"}


def test_keys_are_fresh_and_never_look_like_a_flag() -> None:
    keys = {new_api_key() for _ in range(50)}
    assert len(keys) == 50
    assert all(key.isalnum() and len(key) == 32 for key in keys)


def test_an_attached_server_looks_like_a_launched_one_and_is_left_alone() -> None:
    with serving({"/health": says("{}"), "/props": says('{"build_info": "b11434-1a2b3c4"}')}) as web:
        server = AttachedServer("base", web.url, "a-key")
        wait_until_ready(server, PATIENCE_S, "reaching it")
        assert build_info(server) == "b11434-1a2b3c4"
        server.stop()
        wait_until_ready(server, PATIENCE_S, "reaching it")
    assert (server.exit_code(), server.log(), server.log_tail()) == (None, "", "")


def test_nobody_is_waited_for_where_a_server_is_said_to_run_and_nobody_listens() -> None:
    waited: list[str] = []
    server = AttachedServer("base", f"http://127.0.0.1:{pick_port()}")
    with pytest.raises(NeverReadyError) as caught:
        wait_until_ready(server, 10 * PATIENCE_S, "reaching it", waited.append)
    assert f"nothing listens at {server.url}\n  remedy: start it, or correct the URL" in str(caught.value)
    assert waited == []


def test_what_a_server_says_while_it_is_waited_for_is_told() -> None:
    waited: list[str] = []
    loading, ready = says('{"error": "Loading\n model"}', status=503), says("{}")

    def health(handler: BaseHTTPRequestHandler) -> None:
        (ready if waited else loading)(handler)

    with serving({"/health": health}) as web:
        wait_until_ready(AttachedServer("base", web.url), PATIENCE_S, "reaching it", waited.append)
    assert waited == ['reaching it: HTTP 503: {"error": "Loading model"}']


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
