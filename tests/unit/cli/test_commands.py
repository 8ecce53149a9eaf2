"""The commands as a user meets them: a process, its two streams and its status."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.measure.ledger import append_line
from pytest_specdec.report.results import summary_row
from tests.support import clean_environment, small_profile
from tests.unit.report.test_data import document

needs_duckdb = pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="needs the extra `history`")


def _run(*arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_specdec", *arguments]
    environment = clean_environment() | {"SPECDEC_HISTORY": ""} | settings
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def _results(folder: Path, name: str, **changes: Any) -> Path:
    path = folder / ".specdec" / "runs" / name / "results.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document() | {"run": name} | changes), "utf-8")
    return path.parent


def test_claims_are_listed_with_their_source_and_entry(tmp_path: Path) -> None:
    done = _run("claims", "-m", "exact", "--specdec-device", "cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "tokens_per_cycle[dflash2]" in done.stdout
    assert "study 8" in done.stdout
    assert "lossless.greedy" not in done.stdout


@pytest.mark.parametrize("markers", ["nope", "speed and exact", "speed and"])
def test_a_selection_without_claims_names_the_markers(markers: str, tmp_path: Path) -> None:
    done = _run("claims", "-m", markers, cwd=tmp_path)
    assert done.returncode == 2
    assert f"no claim matches -m {markers!r}" in done.stderr
    assert "remedy: known markers: dflash2, " in done.stderr
    assert "::" not in done.stderr
    assert len(done.stderr.splitlines()) <= 4


def test_suites_that_cannot_be_collected_are_told(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import nosuchmodule\n", "utf-8")
    done = _run("claims", "test_broken.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "nosuchmodule" in done.stderr
    assert "remedy:" in done.stderr


def test_the_latest_run_is_reported(tmp_path: Path) -> None:
    assert "none has left results" in _run("report", cwd=tmp_path).stderr
    _results(tmp_path, "first")
    done = _run("report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 claim: 1 pass" in done.stdout
    assert _run("report", "--markdown", cwd=tmp_path).stdout.startswith("## ✅ Speculative decoding: 1 claim: 1 pass")


def _figure(folder: Path, name: str) -> Path:
    return _results(folder, name, verdicts=[document()["verdicts"][0] | {"evidence": {"value": 4.5}}])


@pytest.mark.parametrize("arguments", [["--csv"], ["--csv", "-"], ["--csv", "figures.csv"]])
def test_the_figures_of_a_run_are_a_table(arguments: list[str], tmp_path: Path) -> None:
    done = _run("report", str(_figure(tmp_path, "one")), *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "figures.csv"
    assert file.exists() == (arguments[-1] == "figures.csv")
    header, row = (file.read_text("utf-8") if file.exists() else done.stdout).splitlines()
    assert header.startswith("run,profile,device,build,")
    assert row == "one,tiny,cpu,b1,,,new,c,value,4.5,,,,,pass"
    assert done.stdout == "" or not file.exists()


@pytest.mark.parametrize(
    ("run", "file", "why"),
    [
        (["nosuch"], "-", "no such file"),
        ([], "no/such/folder.csv", "No such file or directory"),
        ([], ".specdec/runs/one", "that is a directory"),
        ([], ".specdec/runs/one/results.json", "a run keeps its results under that name"),
    ],
)
def test_figures_that_cannot_be_had_or_written_are_told(run: list[str], file: str, why: str, tmp_path: Path) -> None:
    results = _figure(tmp_path, "one") / "results.json"
    before = results.read_bytes()
    done = _run("report", *run, "--csv", file, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert (run or [file])[0] in done.stderr
    assert why in done.stderr
    assert "remedy:" in done.stderr
    assert "Traceback" not in done.stderr
    assert results.read_bytes() == before


@pytest.mark.parametrize("form", ["--markdown", "--comment", "--github"])
def test_one_form_at_a_time(form: str, tmp_path: Path) -> None:
    _figure(tmp_path, "one")
    done = _run("report", form, "--csv", "figures.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "not allowed with argument" in done.stderr
    assert not (tmp_path / "figures.csv").exists()


@pytest.mark.parametrize("text", ["", "{", '{"schema": 7}'])
def test_results_that_cannot_be_read_are_no_traceback(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(text, "utf-8")
    done = _run("report", str(path), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "reading the results" in done.stderr
    assert "Traceback" not in done.stderr


def test_runs_of_one_build_are_joined_by_device(tmp_path: Path) -> None:
    one, two = _results(tmp_path, "one"), _results(tmp_path, "two", device="NVIDIA H200", exit_status=1)
    done = _run("merge", str(one), str(two), "--output", "merged.json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[2].split() == ["claim", "cpu", "NVIDIA", "H200"]
    assert len(json.loads((tmp_path / "merged.json").read_text("utf-8"))["runs"]) == 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "several are of the device cpu"),
        ({"profile": "other", "device": "x"}, "different profiles"),
        ({"build": document()["build"] | {"number": 2}, "device": "x"}, "different builds"),
    ],
)
def test_runs_that_are_not_alike_are_not_joined(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    one, two = _results(tmp_path, "one"), _results(tmp_path, "two", **changes)
    done = _run("merge", str(one), str(two), cwd=tmp_path)
    assert done.returncode == 2
    assert why in done.stderr


def test_commands_take_the_settings_of_a_run_from_the_environment_and_the_ini_file(tmp_path: Path) -> None:
    """``claims`` collects with pytest, so what is set for runs counts unless the command line says otherwise."""
    listed = _run("claims", "-m", "mtp", cwd=tmp_path, SPECDEC_PROFILE="qwen3.6-27b")
    assert "for the profile qwen3.6-27b" in listed.stdout, listed.stderr
    overruled = _run("claims", "-m", "mtp", "--specdec-profile=tiny", cwd=tmp_path, SPECDEC_PROFILE="qwen3.6-27b")
    assert "for the profile tiny" in overruled.stdout, overruled.stderr
    shown = _run("baseline", "show", cwd=tmp_path, SPECDEC_PROFILE="qwen3.6-27b")
    assert "for the profile qwen3.6-27b" in shown.stdout, shown.stderr
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "pytest.ini").write_text("[pytest]\nspecdec_profile = qwen3.6-27b\n", "utf-8")
    (tmp_path / "claims" / "test_own.py").write_text(_OWN_CLAIM, "utf-8")
    own = _run("claims", "test_own.py", cwd=tmp_path / "claims")
    assert "for the profile qwen3.6-27b" in own.stdout, own.stderr


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["doctor"], "qwen3.6-27b"),
        (["baseline", "show"], "for the profile qwen3.6-27b"),
        (["claims", "-m", "mtp"], "for the profile qwen3.6-27b"),
        pytest.param(["history"], "no run of the profile qwen3.6-27b", marks=needs_duckdb),
    ],
)
def test_the_ini_file_of_runs_counts_for_commands_too(command: list[str], shown: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nspecdec_profile = "qwen3.6-27b"\n', "utf-8")
    _results(tmp_path, "one")
    done = _run(*command, cwd=tmp_path)
    assert shown in done.stdout + done.stderr
    for overruled in (_run(*command, "--specdec-profile=tiny", cwd=tmp_path),
                      _run(*command, cwd=tmp_path, SPECDEC_PROFILE="tiny")):  # fmt: skip
        assert "Traceback" not in overruled.stderr
        assert shown not in overruled.stdout + overruled.stderr


def test_a_path_in_the_ini_file_is_read_from_there(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nspecdec_baselines = stored\n", "utf-8")
    (tmp_path / "below").mkdir()
    done = _run("baseline", "check", cwd=tmp_path / "below")
    assert str(tmp_path / "stored") in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["doctor", "--llama-server="],
        ["doctor", "--specdec-baselines="],
        ["claims", "--specdec-profile="],
        ["baseline", "check", "--specdec-baselines="],
        ["history", "--specdec-history="],
    ],
)
def test_an_empty_setting_is_a_variable_that_was_not_set(arguments: list[str], tmp_path: Path) -> None:
    done = _run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    flag = arguments[-1].rstrip("=")
    assert f"argument {flag}: is empty; was a variable not set?" in done.stderr


@pytest.mark.parametrize("command", [["doctor"], ["baseline", "show"], ["claims"]])
def test_a_folder_of_baselines_that_is_not_there_is_told(command: list[str], tmp_path: Path) -> None:
    done = _run(*command, "--specdec-baselines=baselnes", cwd=tmp_path)
    assert done.returncode != 0
    assert "there is no such folder" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_names_a_flag_of_ones_own_that_the_build_does_not_know(tmp_path: Path) -> None:
    profile = small_profile(tmp_path, "[arms.dflash2.flags]\nspec-draft-p-mn = 0.1\n")
    done = _run("doctor", f"--specdec-profile={profile}", cwd=tmp_path)
    assert done.returncode == 1
    assert "does not list --spec-draft-p-mn (did you mean --spec-draft-p-min?) in its --help" in " ".join(
        done.stdout.split()
    )


def test_an_ini_file_that_pytest_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nspecdec_profile = tiny\nspecdec_profile = tiny\n", "utf-8")
    done = _run("doctor", cwd=tmp_path)
    assert done.returncode == 2
    assert str(tmp_path / "pytest.ini") in done.stderr
    assert "remedy:" in done.stderr
    assert "Traceback" not in done.stderr


_OWN_CLAIM = """
import pytest


@pytest.mark.claim("own", source="here", arm="mtp", over="base", on="code")
def test_own(contrast, baseline):
    baseline.holds(contrast.throughput)
"""


@needs_duckdb
def test_the_history_of_a_claim_is_in_the_order_of_the_builds(tmp_path: Path) -> None:
    for number, value in ((11549, 4.4), (10666, 4.6), (11434, 4.5)):
        build = document()["build"] | {"number": number}
        verdict = document()["verdicts"][0] | {"claim": "tokens_per_cycle[dflash2]", "evidence": {"value": value}}
        _results(tmp_path, f"run{number}", build=build, verdicts=[verdict])
    done = _run("history", "tokens_per_cycle[dflash2]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:4]]
    assert [(row[2], row[-1]) for row in rows] == [("b10666", "4.6"), ("b11434", "4.5"), ("b11549", "4.4")]
    assert _run("history", "nosuch*", cwd=tmp_path).returncode == 2


@needs_duckdb
def test_the_history_outlives_the_directories_of_runs(tmp_path: Path) -> None:
    history = tmp_path / ".specdec" / "history.jsonl"
    for name, value in (("old", 4.4), ("new", 4.6)):
        verdict = document()["verdicts"][0] | {"claim": "width", "evidence": {"value": value}}
        _results(tmp_path, name, verdicts=[verdict])
        append_line(history, summary_row(document() | {"run": name, "verdicts": [verdict]}))
    shutil.rmtree(tmp_path / ".specdec" / "runs" / "old")
    done = _run("history", "width", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    moved = history.rename(tmp_path / "elsewhere.jsonl")
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "tiny"\nname = "tiny"\n', "utf-8")
    by_file = {"SPECDEC_PROFILE": str(mine), "SPECDEC_DEVICE": "0"}
    assert _run("history", "width", cwd=tmp_path, SPECDEC_HISTORY=str(moved), **by_file).stdout == done.stdout
    assert _run("history", "width", cwd=tmp_path, SPECDEC_HISTORY=str(moved)).stdout == done.stdout
    rows = [line.split() for line in done.stdout.splitlines()[1:] if line.startswith("width")]
    assert sorted(row[-1] for row in rows) == ["4.4", "4.6"]


@needs_duckdb
def test_the_history_has_the_ratios_of_speed_claims(tmp_path: Path) -> None:
    verdict = document()["verdicts"][0] | {"claim": "speedup.code", "evidence": {"figure": "throughput", "ratio": 2.2}}
    _results(tmp_path, "old", verdicts=[verdict])
    gone = document() | {"run": "gone", "verdicts": [verdict]}
    append_line(tmp_path / ".specdec" / "history.jsonl", summary_row(gone))
    done = _run("history", "speedup.code", cwd=tmp_path)
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("speedup.code")]
    assert [row[-1] for row in rows] == ["2.2", "2.2"], done.stderr


@needs_duckdb
@pytest.mark.parametrize("broken", ["{", "[]", '{"run": 1}', '{"run": "x", "build": {}, "verdicts": ["y"]}'])
def test_what_is_broken_is_named_and_costs_no_other_run_its_history(broken: str, tmp_path: Path) -> None:
    history = tmp_path / ".specdec" / "history.jsonl"
    _figure(tmp_path, "one")
    append_line(history, summary_row(document() | {"run": "two"}))
    with history.open("a", encoding="utf-8") as handle:
        handle.write(broken + "\n")
    append_line(history, summary_row(document() | {"run": "three"}))
    _results(tmp_path, "four").joinpath("results.json").write_text(broken, "utf-8")
    done = _run("history", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith("c ")]) == 3
    told = done.stderr.splitlines()
    assert [line.partition(": it is")[0] for line in told] == [
        "warning: skipped .specdec/runs/four/results.json", "warning: skipped .specdec/history.jsonl line 2",
    ]  # fmt: skip


def test_the_latest_run_that_can_be_read_is_reported(tmp_path: Path) -> None:
    _results(tmp_path, "sound")
    broken = _results(tmp_path, "broken") / "results.json"
    broken.write_text("{", "utf-8")
    os.utime(broken, (4e9, 4e9))  # the newest
    done = _run("report", cwd=tmp_path)
    assert "1 claim: 1 pass" in done.stdout, done.stderr
    assert "broken/results.json" in done.stderr


@pytest.mark.skipif(importlib.util.find_spec("plotly") is None, reason="needs plotly")
@needs_duckdb
def test_the_history_is_drawn(tmp_path: Path) -> None:
    verdict = document()["verdicts"][0] | {"evidence": {"value": 1.0}}
    _results(tmp_path, "run", verdicts=[verdict])
    assert _run("history", "--plot", "plot.html", cwd=tmp_path).returncode == 0
    assert "plotly" in (tmp_path / "plot.html").read_text("utf-8")


@pytest.mark.skipif(importlib.util.find_spec("otava") is None, reason="needs apache-otava")
def test_a_step_in_the_history_is_a_change_point() -> None:
    from pytest_specdec.cli.history import change_points

    values = [4.0 + 0.01 * (n % 3) for n in range(15)] + [3.5 + 0.01 * (n % 3) for n in range(15)]
    assert list(change_points(values)) == [15]


def test_the_doctor_finds_this_machine_fit(tmp_path: Path) -> None:
    done = _run("doctor", "--llama-server=embedded", "--specdec-device", "cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the suite can run here" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--llama-server=/no/such/server"], "no such file"),
        (["--specdec-profile", "nosuch"], "built in: tiny"),
        (["--specdec-profile", "qwen3.8-27b"], "no such file"),
    ],
)
def test_the_doctor_names_what_is_wrong_and_what_to_do(arguments: list[str], told: str, tmp_path: Path) -> None:
    done = _run("doctor", *arguments, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert told in done.stdout
    assert "do: " in done.stdout
    assert "Traceback" not in done.stderr


def test_the_doctor_tells_a_broken_profile_once_and_in_lines(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "tiny"\nname = "mine"\nnosuch = 1\n[arms.a]\nwhat = 2\n', "utf-8")
    done = _run(
        "doctor", "--llama-server=embedded", "--specdec-device=cpu", "--specdec-profile=mine.toml", cwd=tmp_path
    )
    assert done.returncode == 1
    assert done.stdout.count("nosuch") == 1
    assert max(map(len, done.stdout.splitlines())) <= 130
    assert done.stdout.endswith("1 problem keeps the suite from running\n")


def test_models_have_a_card(tmp_path: Path) -> None:
    done = _run("models", "card", cwd=tmp_path)
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [[], ["nosuch"], ["baseline"], ["merge"]])
def test_a_wrong_command_line_is_told(arguments: list[str], tmp_path: Path) -> None:
    done = _run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "usage:" in done.stderr
