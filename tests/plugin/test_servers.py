"""Servers that somebody else runs, and commands that go before the server's own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_specdec.errors import ServerError
from pytest_specdec.measure.ledger import Ledger
from pytest_specdec.measure.servers import AttachedServers, LaunchedServers
from pytest_specdec.profile import compose, load
from pytest_specdec.records import Arm, Mode
from pytest_specdec.server.build import locate
from tests.support import executable, gate, new_run, results_of, servers_of, small_profile
from tests.web import Action, says, serving

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


COMPARED = """
import pytest

@pytest.mark.claim("live.pair", source="t", arm="dflash2", over="base")
def test_pair(server, claim):
    server.start("base")

@pytest.mark.claim("two", source="t", arm="dflash2", over="dflash2", against="dflash2", against_over="base", on="code",
                   kind="speed")
def test_two(contrast, baseline):
    baseline.holds(contrast.throughput)
"""


STORED = """
import pytest

@pytest.mark.claim("recorded", source="t", arm="dflash2", on="mixed")
def test_recorded(cells, baseline):
    baseline.holds(cells["dflash2"].tokens_per_cycle, unit="tokens per cycle")

@pytest.mark.claim("missing", source="t", arm="dflash2", on="mixed")
def test_missing(cells, baseline):
    baseline.holds(cells["dflash2"].tokens_per_cycle, unit="tokens per cycle")

@pytest.mark.claim("floor", source="t", arm="dflash2", on="mixed")
def test_floor(cells, baseline):
    baseline.holds(cells["dflash2"].tokens_per_cycle, unit="tokens per cycle")
"""
RECORDED = {
    "kind": "recorded", "value": 99.0, "unit": "tokens per cycle", "tolerance": 0.05, "direction": "higher",
    "comparability": {"models": {"target": "a" * 64}, "workloads": {"mixed": "b" * 64}, "arm": "x"},
    "provenance": {"build": "b1", "date": "2026-11-01"},
}  # fmt: skip
PUBLISHED = {
    "kind": "published", "value": 4.0, "unit": "tokens per cycle", "direction": "higher", "floor": 1.0, "source": "t",
}  # fmt: skip


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


def test_no_record_speaks_for_attached_servers_but_what_was_published_does(tmp_path: Path, attached: Attached) -> None:
    (tmp_path / "test_it.py").write_text(STORED, "utf-8")
    folder = tmp_path / "stored" / "small"
    folder.mkdir(parents=True)
    for device, entries in (("cpu", {"recorded": RECORDED}), ("card", {"floor": PUBLISHED})):
        document = {"schema": 2, "profile": "small", "device": device, "entries": entries}
        (folder / f"{device}.json").write_text(json.dumps(document), "utf-8")
    run, urls = new_run(tmp_path), [f"--specdec-server-url={arm}={url}" for arm, url in attached.urls.items()]
    settings = [*urls, f"--specdec-profile={small_profile(tmp_path)}", "--specdec-baselines=stored"]
    done = gate(*settings, f"--specdec-run-dir={run}", cwd=tmp_path, LLAMA_API_KEY="the-key-of-both")
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert {name: (row["status"], row["reason"]) for name, row in results_of(run).items()} == {
        "recorded": ("not judged", "not_controlled"),
        "missing": ("not judged", "not_controlled"),
        "floor": ("pass", "held"),
    }
    refused = gate(*settings, "--specdec-update-baseline", cwd=tmp_path, LLAMA_API_KEY="the-key-of-both")
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert "recording what attached servers do" in refused.stderr


def test_servers_of_different_models_are_not_compared(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(CLAIMS, "utf-8")

    def serves(n_params: int, path: str) -> dict[str, Action]:
        model = {"id": path, "meta": {"n_vocab": 1024, "n_params": n_params, "n_ctx": len(path)}}
        return {
            "/health": says("{}"), "/props": says('{"build_info": "b11549-1a2b3c4"}'),
            "/v1/models": says(json.dumps({"data": [model]})),
        }  # fmt: skip

    with serving(serves(7, "/a.gguf")) as base, serving(serves(8, "/b.gguf")) as other:
        done = gate(
            f"--specdec-server-url=base={base.url}", f"--specdec-server-url=dflash2={other.url}",
            f"--specdec-profile={small_profile(tmp_path)}", cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == pytest.ExitCode.USAGE_ERROR
        assert "the servers of base and dflash2 serve different models: n_params 7 and 8\n" in done.stderr
    with serving(serves(7, "/a.gguf")) as base, serving(serves(7, "/somewhere/b.gguf")) as other:
        profile = load(str(small_profile(tmp_path)))
        servers = AttachedServers({"base": base.url, "dflash2": other.url}, profile, None)
        servers.refuse_different_targets([compose(profile, "base"), compose(profile, "dflash2")])


def test_an_arm_that_a_claim_compares_with_and_nobody_attached_is_not_judged(
    tmp_path: Path, attached: Attached
) -> None:
    """Also where it has no workload, and so no cells: a live server, or an arm that only a second contrast names."""
    (tmp_path / "test_it.py").write_text(COMPARED, "utf-8")
    run = new_run(tmp_path)
    done = gate(
        f"--specdec-server-url=dflash2={attached.urls['dflash2']}", f"--specdec-run-dir={run}",
        f"--specdec-profile={small_profile(tmp_path)}", cwd=tmp_path, LLAMA_API_KEY="the-key-of-both",
    )  # fmt: skip
    assert "KeyError" not in done.stdout + done.stderr
    assert (run / "results.json").exists(), done.stdout + done.stderr
    found = results_of(run)
    assert {row["reason"] for row in found.values()} == {"arm_not_attached"}, found
    assert found["live.pair"]["remedy"] == "--specdec-server-url=base=URL"


def test_a_wrong_key_is_told(tmp_path: Path, attached: Attached) -> None:
    done = gate(*arguments(tmp_path, new_run(tmp_path), attached), cwd=tmp_path, LLAMA_API_KEY="another")
    assert done.returncode not in (0, pytest.ExitCode.INTERNAL_ERROR)
    told = done.stdout + done.stderr
    assert "401: $LLAMA_API_KEY is wrong" in told
    assert "Traceback" not in told


def test_a_url_at_which_nobody_listens_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(CLAIMS, "utf-8")
    profile = small_profile(tmp_path)
    done = gate("--specdec-server-url=base=http://127.0.0.1:9", f"--specdec-profile={profile}", cwd=tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    told = done.stdout + done.stderr
    assert "reaching http://127.0.0.1:9 (arm base)" in told
    assert "nothing listens at http://127.0.0.1:9" in told
    assert "start it, or correct the URL" in told
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


def test_an_arm_that_nobody_attached_is_an_error_of_the_server() -> None:
    servers = AttachedServers({"dflash2": "http://127.0.0.1:9"}, load("tiny"), None)
    with pytest.raises(ServerError, match="attached are dflash2"), servers.running(Arm("base"), Mode.EXACT):
        pass
