"""Servers that somebody else runs, and commands that go before the server's own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_specdec.measure.ledger import Ledger
from pytest_specdec.measure.servers import LaunchedServers
from pytest_specdec.profile import compose, load
from pytest_specdec.records import Mode
from pytest_specdec.server.build import locate
from tests.support import executable, gate, new_run, results_of, servers_of, small_profile

CLAIMS = """
import pytest

@pytest.mark.claim("drafted", source="t", arm="dflash2", over="base", on="mixed", kind="exact")
def test_drafted(cells, claim):
    claim.holds(cells["dflash2"].drafted > 0, measured="drafts", expected="drafts")
    claim.holds(cells["base"].drafted == 0, measured="none", expected="none")

@pytest.mark.claim("narrow", source="t", arm="dflash2@3", on="mixed")
def test_narrow(cells, claim):
    cells["dflash2@3"]

@pytest.mark.claim("live", source="t", arm="dflash2")
def test_live(server, claim):
    client = server.start()
    reply = client.generate("def f(x):", {"temperature": 0.0, "n_predict": 8})
    claim.holds(len(reply.tokens) == 8, measured=str(len(reply.tokens)), expected="8")

@pytest.mark.claim("slots", source="t", arm="dflash2", server_flags={"parallel": 2})
def test_slots(server, claim):
    server.start()
"""


class Attached:
    """Two servers, one per arm, that the run under test did not start."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        profile = load(str(small_profile(directory)))
        servers = LaunchedServers(locate("embedded"), profile, Ledger(directory / "others"))
        stack.callback(servers.close)
        running = [
            stack.enter_context(servers.running(compose(profile, arm), Mode.EXACT)) for arm in ("base", "dflash2")
        ]
        self.urls = {server.arm: server.url for server in running}
        self.keys = [server.api_key for server in running]
        self.running = running


@pytest.fixture
def attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attached]:
    monkeypatch.setattr("pytest_specdec.measure.servers.new_api_key", lambda: "the-key-of-both")
    with ExitStack() as stack:
        yield Attached(tmp_path, stack)


def arguments(directory: Path, run: Path, attached: Attached) -> list[str]:
    (directory / "test_it.py").write_text(CLAIMS, "utf-8")
    urls = [f"--specdec-server-url={arm}={url}/" for arm, url in attached.urls.items()]
    return [*urls, f"--specdec-run-dir={run}", f"--specdec-profile={small_profile(directory)}", "-v"]


def test_servers_attached_by_url_are_judged_and_go_on(tmp_path: Path, attached: Attached) -> None:
    run = new_run(tmp_path)
    done = gate(*arguments(tmp_path, run, attached), cwd=tmp_path, LLAMA_API_KEY="the-key-of-both")
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    verdicts = {name: (row["status"], row["reason"]) for name, row in results_of(run).items()}
    assert verdicts == {
        "drafted": ("pass", "held"),
        "narrow": ("not judged", "arm_not_attached"),
        "live": ("pass", "held"),
        "slots": ("not judged", "not_controlled"),
    }
    assert results_of(run)["narrow"]["remedy"] == "--specdec-server-url=dflash2@3=URL"
    assert "asked for by --specdec-server-url" in done.stdout
    assert all(server.exit_code() is None for server in attached.running)
    identity = json.loads((run / "run.json").read_text("utf-8"))
    assert identity["build"]["source"] == "url"
    assert "the-key-of-both" not in (run / "run.json").read_text("utf-8")


def test_a_wrong_key_is_told(tmp_path: Path, attached: Attached) -> None:
    done = gate(*arguments(tmp_path, new_run(tmp_path), attached), cwd=tmp_path, LLAMA_API_KEY="another")
    assert done.returncode not in (0, pytest.ExitCode.INTERNAL_ERROR)
    told = done.stdout + done.stderr
    assert "401" in told
    assert "$LLAMA_API_KEY" in told
    assert "Traceback" not in told


def test_a_url_at_which_nobody_listens_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(CLAIMS, "utf-8")
    profile = small_profile(tmp_path, "[server]\nready_timeout_s = 1\n")
    done = gate("--specdec-server-url=base=http://127.0.0.1:9", f"--specdec-profile={profile}", cwd=tmp_path)
    assert done.returncode not in (0, pytest.ExitCode.INTERNAL_ERROR)
    told = done.stdout + done.stderr
    assert "reaching http://127.0.0.1:9 (arm base)" in told
    assert "within 1 s" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("kind", ["env", "nice", "wrapper"])
def test_a_launcher_goes_before_the_binary(tmp_path: Path, kind: str) -> None:
    (tmp_path / "test_it.py").write_text(CLAIMS, "utf-8")
    seen = tmp_path / "seen"
    wrapper = executable(
        tmp_path / "my launcher",
        f"""
        import os, subprocess, sys
        with open({str(seen)!r}, "a") as handle:
            handle.write(f"{{os.getpriority(os.PRIO_PROCESS, 0)}}\\n")
        sys.exit(subprocess.call(sys.argv[2:]))  # the server is its child
        """,
    )
    launcher = {"env": "env SPECDEC_TEST=1", "nice": "nice -n 5", "wrapper": f"'{wrapper}' --"}[kind]
    run = new_run(tmp_path)
    done = gate(
        f"--specdec-launcher={launcher}", f"--specdec-run-dir={run}", f"--specdec-profile={small_profile(tmp_path)}",
        "-k", "test_drafted or test_live", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert not servers_of(run)
    launched = json.loads((run / "run.json").read_text("utf-8"))["arguments"]["dflash2"]["exact"]
    assert launched[0] == {"env": "env", "nice": "nice", "wrapper": str(wrapper)}[kind]
    if kind == "wrapper":
        # --version, --help, and three servers
        assert seen.read_text().splitlines() == [str(os.getpriority(os.PRIO_PROCESS, 0))] * 5


def test_a_launcher_that_does_not_exist_is_told_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(CLAIMS, "utf-8")
    done = gate(
        "--specdec-launcher=no-such-launcher", f"--specdec-profile={small_profile(tmp_path)}", "-k", "test_drafted",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "No such file or directory: 'no-such-launcher'" in done.stderr
    assert "check --specdec-launcher=no-such-launcher" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_build_that_only_the_launcher_can_see(tmp_path: Path) -> None:
    """As in a container: the path names nothing on this machine."""
    (tmp_path / "test_it.py").write_text(CLAIMS, "utf-8")
    inside = executable(
        tmp_path / "container", "import os, sys\nassert sys.argv[1] == '/app/llama-server'\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'pytest_specdec.server.embedded', *sys.argv[2:]])\n",
    )  # fmt: skip
    run = new_run(tmp_path)
    done = gate(
        "--llama-server=/app/llama-server", f"--specdec-launcher={inside}", "-k", "test_drafted",
        f"--specdec-profile={small_profile(tmp_path)}", f"--specdec-run-dir={run}", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert json.loads((run / "run.json").read_text("utf-8"))["build"]["location"] == "/app/llama-server"
