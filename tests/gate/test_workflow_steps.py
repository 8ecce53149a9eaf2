"""The shell steps of the action and of the workflows, executed with a fake event."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.gate.test_bisect import SUITE
from tests.gate.workflow_steps import GITHUB, Runner, steps_of
from tests.unit.report.hostile import HOSTILE
from tests.unit.report.test_data import document

ACTION = GITHUB / "actions" / "specdec"
SUITES = Path(__file__).parents[2] / "suites"

# A build that speaks to the runner: it answers for itself, then ends with commands in its log once it is to speculate.
HOSTILE_SERVER = f"""#!/bin/sh
case " $* " in *" --spec-type "*)
  printf '::set-output name=status::0\\n  ::error::forged\\n##[set-env name=PATH]/evil\\n::add-mask::x\\n' >&2
  env | grep '^GITHUB_' >&2
  exit 1 ;;
esac
exec {sys.executable} -m pytest_specdec.server.embedded "$@"
"""


def _runner(folder: Path, **inputs: str) -> Runner:
    declared = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))["inputs"]
    defaults = {f"inputs.{name}": str(entry.get("default", "")) for name, entry in declared.items()}
    given = {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
    return Runner(folder, {**defaults, **given, "github.action_path": str(ACTION)})


def _fake_python(folder: Path) -> Path:
    """Makes a "virtual environment" whose Python is this one and whose pip only says what it was to install."""
    inner = f'case "$*" in "-m pip"*) echo "$*" > {folder}/pip; exit 0 ;; esac\\nexec {sys.executable} "$@"'
    script = folder / "python"
    script.write_text(
        "#!/bin/sh\n"
        f'case "$*" in "-m venv "*) mkdir -p "$3/bin"; printf \'#!/bin/sh\\n%b\\n\' \'{inner}\' > "$3/bin/python"; '
        'chmod +x "$3/bin/python"; exit 0 ;; esac\n'
        f'exec {sys.executable} "$@"\n',
        "utf-8",
    )
    script.chmod(0o755)
    return script


def _judged(tmp_path: Path, **inputs: str) -> tuple[Runner, subprocess.CompletedProcess[str]]:
    runner = _runner(tmp_path, **{"python": str(_fake_python(tmp_path)), "suites": str(SUITES), **inputs})
    steps = steps_of(ACTION / "action.yml")
    installed = runner.run(steps["Install"])
    assert installed.returncode == 0, installed.stderr
    assert "[embedded]" in (tmp_path / "pip").read_text("utf-8")
    return runner, runner.run(steps["Judge"])


def test_a_green_run_is_published(tmp_path: Path) -> None:
    runner, judged = _judged(
        tmp_path, llama_server="embedded", pytest_args="-k 'test_n_max_15 or nosuch' -p no:cacheprovider"
    )
    steps = steps_of(ACTION / "action.yml")
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert runner.outputs["steps.judge.outputs.status"] == "0", judged.stdout + judged.stderr
    published = runner.run(steps["Publish"])
    assert published.returncode == 0, published.stderr
    assert runner.summary.read_text("utf-8").startswith("## ✅ Speculative decoding: 1 claim: 1 pass")
    assert runner.run(steps["Verdict"]).returncode == 0
    assert (tmp_path / "temp" / "specdec-run" / "junit.xml").exists()


def test_a_hostile_build_gives_no_command_to_the_runner(tmp_path: Path) -> None:
    server = tmp_path / "llama-server"
    server.write_text(HOSTILE_SERVER, "utf-8")
    server.chmod(0o755)
    runner, judged = _judged(tmp_path, llama_server=str(server), pytest_args="-k test_n_max_15 -p no:cacheprovider")
    steps = steps_of(ACTION / "action.yml")
    assert runner.outputs["steps.judge.outputs.status"] == "1", judged.stdout
    assert "set-output" in judged.stdout
    assert "GITHUB_" not in judged.stdout
    assert _commands_heard(judged.stdout) == []
    published = runner.run(steps["Publish"])
    assert published.returncode == 0, published.stderr
    assert all(
        line.startswith("::error file=suites/test_width.py,title=") for line in _commands_heard(published.stdout)
    )
    assert "<code>arm_lost</code>" in runner.summary.read_text("utf-8")
    assert runner.run(steps["Verdict"]).returncode == 1


def test_a_lossy_build_is_annotated(tmp_path: Path) -> None:
    suite = tmp_path / "suite" / "test_same.py"
    suite.parent.mkdir()
    suite.write_text(SUITE, "utf-8")
    arguments = "--specdec-arm-args '--spec-synth-len 2' -p no:cacheprovider"
    runner, judged = _judged(tmp_path, llama_server="embedded", suites=str(suite), pytest_args=arguments)
    assert runner.outputs["steps.judge.outputs.status"] == "1", judged.stdout
    published = runner.run(steps_of(ACTION / "action.yml")["Publish"])
    heard = _commands_heard(published.stdout)
    assert len(heard) == 1
    assert heard[0].startswith("::error file=")
    assert "title=fail (assertion)%3A same::measured: " in heard[0]
    assert "❌ fail" in runner.summary.read_text("utf-8")


def test_a_run_that_judged_nothing_says_so(tmp_path: Path) -> None:
    runner, judged = _judged(tmp_path, llama_server="embedded", profile="nosuch")
    steps = steps_of(ACTION / "action.yml")
    assert judged.returncode == 0
    assert runner.outputs["steps.judge.outputs.status"] == "4"
    assert "nothing was judged" in runner.run(steps["Publish"]).stdout
    assert runner.run(steps["Verdict"]).returncode == 4


def test_a_server_that_is_not_there_fails_the_step(tmp_path: Path) -> None:
    _, judged = _judged(tmp_path, llama_server="no/such/folder/llama-server")
    assert judged.returncode != 0
    assert "No such file" in judged.stderr


def test_the_merge_base_is_found(tmp_path: Path) -> None:
    upstream = tmp_path / "upstream"
    upstream.mkdir()

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(upstream), "-c", "user.name=t", "-c", "user.email=t@example.invalid", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet", "--initial-branch=master")
    git("commit", "--quiet", "--allow-empty", "-m", "base")
    base = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "-b", "change")
    git("commit", "--quiet", "--allow-empty", "-m", "change")
    new = git("rev-parse", "HEAD")
    git("update-ref", "refs/pull/7/head", new)
    git("checkout", "--quiet", "master")
    git("commit", "--quiet", "--allow-empty", "-m", "master went on")

    step = dict(steps_of(GITHUB / "workflows" / "gate.yml", "base")["Find the merge base"])
    step["env"] = {**step["env"], "REPOSITORY": upstream.as_uri()}
    runner = Runner(tmp_path / "job", {"inputs.llama-ref": "refs/pull/7/head", "inputs.base-ref": "master"})
    done = runner.run(step)
    assert done.returncode == 0, done.stderr
    found = {name.removeprefix("steps.refs.outputs."): value for name, value in runner.outputs.items()}
    assert found == {"new-sha": new, "new-number": "2", "base-sha": base, "base-number": "1"}


def test_an_unknown_backend_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [ACTION / "build", "new"], cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "BACKEND": "tpu"}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "must be cpu, cuda, rocm or vulkan" in done.stdout


needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")


def _toy_sources(folder: Path) -> None:
    """Sources that number themselves as llama.cpp does, and know of one commit only."""
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.14)\nproject(toy C)\n"
        "if (NOT DEFINED LLAMA_BUILD_NUMBER)\n  set(LLAMA_BUILD_NUMBER 1)\nendif()\n"
        "add_compile_definitions(NUMBER=${LLAMA_BUILD_NUMBER})\n"
        "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)\nadd_executable(llama-server main.c)\n",
        "utf-8",
    )
    (folder / "main.c").write_text('#include <stdio.h>\nint main(void) { printf("%d", NUMBER); return 0; }\n', "utf-8")


def _said_by(server: Path) -> str:
    return subprocess.run([server], capture_output=True, text=True, check=True).stdout


@needs_cmake
@needs_compiler
def test_a_build_is_one_file(tmp_path: Path) -> None:
    _toy_sources(tmp_path / "new")
    done = subprocess.run([ACTION / "build", "new"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert _said_by(tmp_path / "build-new" / "bin" / "llama-server") == "1"


@needs_cmake
@needs_compiler
@pytest.mark.parametrize(
    ("job", "step", "side", "number"),
    [
        ("base", "Build the merge base", "base", "steps.refs.outputs.base-number"),
        ("gate", "Build the ref under test", "new", "needs.base.outputs.new-number"),
    ],
)
def test_a_build_of_a_shallow_checkout_has_its_true_number(
    job: str, step: str, side: str, number: str, tmp_path: Path
) -> None:
    runner = Runner(tmp_path, {"inputs.backend": "cpu", number: "11549"})
    (runner.workspace / "specdec").symlink_to(GITHUB.parent)
    _toy_sources(runner.workspace / side)
    done = runner.run(steps_of(GITHUB / "workflows" / "gate.yml", job)[step])
    assert done.returncode == 0, done.stderr
    assert _said_by(runner.workspace / f"build-{side}" / "bin" / "llama-server") == "11549"


def test_the_sandbox_runs_what_it_is_given_and_says_what_it_lacks(tmp_path: Path) -> None:
    done = subprocess.run(
        [ACTION / "sandbox", "sh", "-c", 'printf "%s|" "$@"', "sh", "a b", "$c"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "a b|$c|"
    for tool, words in (("systemd-run", "no systemd scope"), ("bwrap", "no bubblewrap")):
        assert words in done.stderr or shutil.which(tool) is not None


def _comment_runner(folder: Path, gh: str) -> Runner:
    """With a ``gh`` that answers as the script says and keeps what it was asked."""
    commands = folder / "bin"
    commands.mkdir(parents=True)
    for name, text in (("gh", gh), ("python", f'exec {sys.executable} "$@"')):
        (commands / name).write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        (commands / name).chmod(0o755)
    values = {
        "github.event.workflow_run.html_url": "https://github.com/o/p/actions/runs/1",
        "github.event.workflow_run.head_sha": "0" * 40,
        "github.repository": "o/p",
        "github.token": "t",
    }
    return Runner(folder, values, {"PATH": f"{commands}:/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("numbers", "comments", "asked"),
    [
        ("7", "", "--method POST repos/o/p/issues/7/comments"),
        ("7", "41", "--method PATCH repos/o/p/issues/comments/41"),
        ("", "", ""),
    ],
)
def test_one_comment_is_written_or_replaced(numbers: str, comments: str, asked: str, tmp_path: Path) -> None:
    gh = (
        f'echo "$*" >> {tmp_path}/asked\n'
        f'case "$*" in *pulls*) echo "{numbers}" ;; *paginate*) echo "{comments}" ;; esac'
    )
    runner = _comment_runner(tmp_path, gh)
    steps = steps_of(GITHUB / "workflows" / "comment.yml", "comment")
    untrusted = runner.temp / "untrusted"
    untrusted.mkdir()
    verdict = document()["verdicts"][0] | {"status": "fail", "reason": "tokens_differ", "detail": "\n".join(HOSTILE)}
    (untrusted / "results.json").write_text(json.dumps(document() | {"verdicts": [verdict]}), "utf-8")
    rendered = runner.run(steps["Render"])
    assert rendered.returncode == 0, rendered.stderr
    comment = (runner.temp / "comment.md").read_text("utf-8")
    assert comment.startswith("<!-- pytest-specdec -->\n## ❌")
    assert "<script" not in comment
    done = runner.run(steps["Comment"])
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "asked").read_text("utf-8")
    assert asked in calls
    assert ("--method" in calls) == bool(asked)


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1, "verdicts": "<script>"}'])
def test_results_that_are_no_results_make_no_comment(text: str, tmp_path: Path) -> None:
    runner = _comment_runner(tmp_path, "exit 9")
    (runner.temp / "untrusted").mkdir()
    (runner.temp / "untrusted" / "results.json").write_text(text, "utf-8")
    done = runner.run(steps_of(GITHUB / "workflows" / "comment.yml", "comment")["Render"])
    assert done.returncode != 0
    assert "reading the results" in done.stderr


def _commands_heard(log: str) -> list[str]:
    """Lines that the runner would obey: those between a stop and its token are passed over."""
    heard: list[str] = []
    token = ""
    for line in map(str.strip, log.splitlines()):
        if token:
            token = "" if line == f"::{token}::" else token
        elif line.startswith("::stop-commands::"):
            token = line.removeprefix("::stop-commands::")
        elif line.startswith("::") or "##[" in line:
            heard.append(line)
    return heard
