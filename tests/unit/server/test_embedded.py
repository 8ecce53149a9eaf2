"""The server out of the wheel takes the flags of llama-server, and no others."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_specdec.errors import ModelError
from pytest_specdec.profile import BUILTIN, compose, load
from pytest_specdec.records import Arm, Mode, Profile
from pytest_specdec.server import embedded
from pytest_specdec.server.build import locate
from pytest_specdec.server.command import ModelArguments, argv
from pytest_specdec.server.process import AttachedServer, pick_port, wait_until_ready
from tests.support import PATIENCE_S, clean_environment


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_specdec.server.embedded", *arguments], env=clean_environment(), text=True,
        capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "flag",
    [
        "--spec-draft-n-mx=7",
        "--spec-draft-n",
        "--spec-draft",
        "--ctx",
        "--spec-synth",
        "--metric",
        "--unheard-of=1",
        "-zz",
    ],
)
def test_an_unknown_flag_exits_2_and_is_named(flag: str) -> None:
    done = run("--model", "x.gguf", flag)
    assert done.returncode == 2
    assert flag.partition("=")[0] in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--spec-type", "draft-dfalsh"], "'draft-dfalsh' is not one of none, draft-simple"),
        (["--spec-type", "draft-dflash,ngram-map-k5"], "'ngram-map-k5' is not one of"),
        (["--cache-type-k", "f17"], "'f17' is not one of f32"),
        (["--flash-attn", "maybe"], "'maybe' is not one of on, off, auto"),
        (["--ctx-size", "many"], "invalid int value: 'many'"),
        (["--spec-synth-rates", "0.5,x"], "invalid _rates value"),
        (["--ctx-size"], "expected one argument"),
    ],
)
def test_a_bad_value_exits_2_and_is_named(arguments: list[str], words: str) -> None:
    done = run("--model", "x.gguf", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_is_not_there_ends_it_with_1() -> None:
    done = run("--model", "/no/such/model.gguf", "--port", "0")
    assert done.returncode == 1
    assert "embedded server: " in done.stderr
    assert "Traceback" not in done.stderr


def test_it_says_which_version_it_is() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "xllamacpp")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the threads' signal masks from /proc")
def test_a_signal_to_stop_waits_until_it_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handled at the wrong moment it would wake nobody: one start in thirty, stopped as soon as it was ready, hung."""
    monkeypatch.setattr("pytest_specdec.server.process._ABSENT_S", PATIENCE_S)
    from pytest_specdec.profile import resolve

    profile = load("tiny")
    model = resolve("target", profile.models["target"], profile.origin).path
    port = pick_port()
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "pytest_specdec.server.embedded", f"--model={model}", f"--port={port}"],
            env=clean_environment(), stdout=log, stderr=log,
        )  # fmt: skip
    try:
        wait_until_ready(AttachedServer("base", f"http://127.0.0.1:{port}"), PATIENCE_S, "starting the embedded server")
        threads = [task for task in Path(f"/proc/{server.pid}/task").iterdir() if task.name != str(server.pid)]
        masks = [_blocked(thread) for thread in threads]
        assert masks, "the server's own threads; the main one, which waits for the signals, shows them as free"
        assert all(mask >> (number - 1) & 1 for mask in masks for number in (signal.SIGTERM, signal.SIGINT))
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0
    finally:
        server.kill()
        server.wait()


def _blocked(task: Path) -> int:
    """The signals that one thread blocks, a bit each."""
    lines = (task / "status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("SigBlk:")).split()[1], 16)


KNOWN = locate("embedded", {}).capabilities.flags


def arms_of(name: str) -> list[tuple[Profile, Arm, Mode]]:
    profile = load(name)
    names = dict.fromkeys(["base", *profile.arms, *profile.judged_arms])
    widths = [f"{arm}@3" for arm in names if compose(profile, arm).n_max is not None]
    return [(profile, compose(profile, arm), mode) for arm in (*names, *widths) for mode in Mode]


@pytest.mark.parametrize("name", BUILTIN)
def test_every_flag_of_the_built_in_profiles_that_it_can_take_is_accepted(name: str) -> None:
    """Flags that the wheel lacks are left out; what is listed in ``--help`` must be understood and have a place."""
    for profile, arm, mode in arms_of(name):
        words = argv(
            [], profile, arm, mode, ModelArguments("t.gguf", drafter="d.gguf" if arm.drafter else None), 1, "key"
        )
        taken, unknown = _known_part(words)
        assert not unknown or name != "tiny", f"{arm.name}: {unknown}"
        parameters = embedded._parameters(embedded._parser().parse_args(taken))  # noqa: SLF001
        assert parameters.model.path == "t.gguf"
        if arm.n_max is not None:
            assert parameters.speculative.draft.n_max == arm.n_max
        assert len(parameters.speculative.types) >= len(arm.spec_types)


def _known_part(words: tuple[str, ...]) -> tuple[list[str], list[str]]:
    taken: list[str] = []
    unknown: list[str] = []
    target = taken
    for word in words:
        if word.startswith("--"):
            target = taken if word in KNOWN else unknown
        target.append(word)
    return taken, unknown


def test_the_models_of_the_tiny_profile_are_there() -> None:
    from pytest_specdec.profile import resolve

    profile = load("tiny")
    for name in ("target", "dflash2"):
        assert resolve(name, profile.models[name], profile.origin).path is not None
    with pytest.raises(ModelError):
        resolve("x", "packaged:unheard-of", profile.origin)
