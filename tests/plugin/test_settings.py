"""Options in a running pytest: three names each, bad values named, and no configuration lost to a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specdec.options import OPTIONS
from tests.support import build_with_fault, gate, small_profile

CLAIM = """
import pytest

@pytest.mark.claim("a", source="t", arm="base", on="mixed")
def test_a(claim, request, server):
    from pytest_specdec.keys import SETTINGS
    server.start()
    claim.holds(True, measured=repr(request.config.stash[SETTINGS]), expected="settings")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with its own ini file, and a place elsewhere."""
    pytester.makeini("[pytest]\ntestpaths = suite\n")
    folder = pytester.mkdir("suite")
    (folder / "test_it.py").write_text(CLAIM, "utf-8")
    return pytester


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


def test_the_command_line_beats_the_environment_beats_the_ini_file(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makeini("[pytest]\ntestpaths = suite\nspecdec_inconclusive = never\nspecdec_quiet = true\n")
    in_file = project.runpytest_inprocess()
    assert in_file.ret == pytest.ExitCode.USAGE_ERROR
    in_file.stderr.fnmatch_lines(
        ["ERROR: specdec_inconclusive in *tox.ini: 'never' is not valid; it takes one of fail, skip"]
    )

    monkeypatch.setenv("SPECDEC_INCONCLUSIVE", "perhaps")
    in_environment = project.runpytest_inprocess()
    in_environment.stderr.fnmatch_lines(["ERROR: environment variable SPECDEC_INCONCLUSIVE: 'perhaps' is not valid; *"])

    monkeypatch.delenv("SPECDEC_LLAMA_SERVER")
    given = project.runpytest_subprocess("--specdec-inconclusive=skip", "--llama-server=embedded")
    assert given.ret == pytest.ExitCode.OK
    given.stdout.fnmatch_lines(
        ["*asked for by --llama-server*", "*inconclusive=<Inconclusive.SKIP: 'skip'>*quiet=True*"]
    )


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--specdec-inconclusive=never", "it takes one of fail, skip"),
        ("--specdec-update-baseline=some", "it takes one of all, new, off"),
        ("--specdec-server-url=http://127.0.0.1:1", "it takes ARM=URL, for example base=http://127.0.0.1:8080"),
        ("--specdec-server-url=base=127.0.0.1:1", "it takes ARM=URL, for example base=http://127.0.0.1:8080"),
        ("--specdec-arm-args=--a 'b", "it takes a command line as a shell would read it (No closing quotation)"),
    ],
)
def test_a_bad_value_ends_the_run_and_the_valid_ones_are_named(
    pytester: pytest.Pytester, argument: str, words: str
) -> None:
    result = pytester.runpytest_inprocess(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    flag, _, value = argument.partition("=")
    told = result.stderr.str()
    assert told.startswith(f"ERROR: {flag}: {value!r} is not valid; {words}".replace("\\'", "'")) or words in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    "recording", ["--specdec-update-baseline", "--specdec-update-baseline=new", "--specdec-calibrate"]
)
def test_what_is_only_tried_is_not_recorded(project: pytest.Pytester, recording: str) -> None:
    trial = "--specdec-arm-args=--spec-draft-p-min 0.85"
    result = project.runpytest_inprocess(recording, trial)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([
        f"ERROR: recording ({recording.partition('=')[0]}) with --specdec-arm-args='--spec-draft-p-min 0.85'",
        "*why:*for trying a change*", "*remedy:*a profile of your own*",
    ])  # fmt: skip
    for judging in ((trial,), (trial, "--specdec-update-baseline=off")):
        assert project.runpytest_inprocess("--collect-only", "-q", *judging).ret == pytest.ExitCode.OK


@pytest.mark.parametrize("option", [option.flag for option in OPTIONS if option.metavar is not None])
def test_an_empty_value_on_the_command_line_is_a_variable_that_was_not_set(
    pytester: pytest.Pytester, option: str
) -> None:
    result = pytester.runpytest_inprocess(f"{option}=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"{option}= is empty; was a variable not set?" in result.stderr.str()


def test_an_empty_value_elsewhere_is_none(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    for option in OPTIONS:
        monkeypatch.setenv(option.env, "")
    project.makeini("[pytest]\ntestpaths = suite\n" + "".join(f"{option.ini} =\n" for option in OPTIONS))
    assert project.runpytest_inprocess("--collect-only").ret == pytest.ExitCode.OK


def test_a_profile_that_does_not_exist_ends_the_run_before_collection(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("--specdec-profile=tini")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: reading the profile tini", "*neither a built-in*", "*did you mean 'tiny'?*"])


def test_paths_in_the_ini_file_start_at_the_ini_file(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\ntestpaths = suite\nspecdec_run_dir = kept/here\nspecdec_report = kept/report.json\n")
    result = gate(cwd=project.path / "suite")
    assert result.returncode == pytest.ExitCode.OK
    assert (project.path / "kept" / "here" / "run.json").exists()
    assert (project.path / "kept" / "report.json").exists()


@pytest.mark.parametrize("option", ["--llama-server", "--specdec-profile", "--specdec-run-dir", "--specdec-launcher"])
def test_a_path_that_takes_the_configuration_away_is_refused(
    project: pytest.Pytester, elsewhere: Path, option: str
) -> None:
    build_with_fault(elsewhere, "pass")
    small_profile(elsewhere)
    path = {"--llama-server": elsewhere / "llama-server", "--specdec-profile": elsewhere / "small.toml"}.get(
        option, elsewhere
    )
    result = project.runpytest_inprocess(option, str(path))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = result.stderr.str()
    assert f"write {option}={path}" in told
    assert f"did not read {project.path / 'tox.ini'}" in told


def test_so_is_one_beside_the_configuration_of_another_project(project: pytest.Pytester, elsewhere: Path) -> None:
    (elsewhere / "pyproject.toml").write_text("[tool.other]\n")
    small_profile(elsewhere)
    result = project.runpytest_inprocess("--specdec-profile", str(elsewhere / "small.toml"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"did not read {project.path / 'tox.ini'}" in result.stderr.str()


def test_so_is_one_in_the_environment(
    project: pytest.Pytester, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = small_profile(elsewhere)
    monkeypatch.setenv("PYTEST_ADDOPTS", f"--specdec-profile {profile}")
    assert f"write --specdec-profile={profile}" in project.runpytest_inprocess().stderr.str()


def test_a_path_that_takes_nothing_away_is_taken(project: pytest.Pytester, elsewhere: Path) -> None:
    outside = small_profile(elsewhere)
    inside = small_profile(project.path)
    for arguments in (
        [f"--specdec-profile={outside}"],
        ["--specdec-profile", str(inside)],
        ["--specdec-profile", str(outside), "-c", "tox.ini"],
        ["--specdec-profile", "tiny"],
    ):
        result = project.runpytest_inprocess("--collect-only", "-q", *arguments)
        assert result.ret == pytest.ExitCode.OK, result.stderr.str()


def test_nor_where_the_tests_themselves_are_elsewhere(project: pytest.Pytester, elsewhere: Path) -> None:
    profile = small_profile(elsewhere)
    (elsewhere / "test_there.py").write_text(CLAIM, "utf-8")
    result = project.runpytest_inprocess("--collect-only", "-q", str(elsewhere), "--specdec-profile", str(profile))
    assert result.ret == pytest.ExitCode.OK, result.stderr.str()


@pytest.mark.parametrize("by", ["command line", "environment", "ini file"])
def test_a_folder_of_baselines_that_is_not_there_ends_the_run(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    if by == "environment":
        monkeypatch.setenv("SPECDEC_BASELINES", "baselnes")
    elif by == "ini file":
        project.makeini("[pytest]\ntestpaths = suite\nspecdec_baselines = baselnes\n")
    for more in ([], ["--specdec-plan"]):
        result = project.runpytest_inprocess(*(["--specdec-baselines=baselnes"] if by == "command line" else []), *more)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: reading the baselines in *baselnes*", "*there is no such folder"])


def test_a_device_without_a_baseline_of_its_own_is_told_above_the_tests(project: pytest.Pytester) -> None:
    (project.path / "stored" / "tiny").mkdir(parents=True)
    (project.path / "stored" / "tiny" / "other.json").write_text(
        '{"schema": 1, "profile": "tiny", "device": "other", "entries": {}}', "utf-8"
    )
    result = project.runpytest_inprocess("--specdec-baselines=stored")
    result.stdout.fnmatch_lines(["specdec: no baseline for cpu in stored/tiny: recorded claims are not judged"])


@pytest.mark.parametrize("place", ["nowhere", "suite"])
def test_where_no_run_has_begun_there_is_none_to_go_on_with(project: pytest.Pytester, place: str) -> None:
    before = sorted(project.path.rglob("*"))
    result = project.runpytest_inprocess("-p", "no:cacheprovider", f"--specdec-resume={place}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: going on with the run in {place}*", f"*there is no run in {place}*"])
    assert [path for path in sorted(project.path.rglob("*")) if "__pycache__" not in path.parts] == before


def test_a_run_that_goes_on_has_its_place(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("--specdec-resume=one", "--specdec-run-dir=two")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--specdec-resume=one and --specdec-run-dir=two" in result.stderr.str()


def test_a_flag_of_ones_own_profile_that_the_build_does_not_know_ends_the_run(
    project: pytest.Pytester, elsewhere: Path
) -> None:
    profile = small_profile(elsewhere, "[server.flags]\nctx-sise = 512\n")
    result = project.runpytest_inprocess(f"--specdec-profile={profile}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            f"ERROR: using the flags of the profile {profile}",
            "*does not list --ctx-sise (did you mean --ctx-size?) in its --help",
            "*correct the flag*",
        ]
    )


def test_one_of_a_built_in_profile_that_a_build_is_too_old_for_does_not(
    project: pytest.Pytester, elsewhere: Path
) -> None:
    """Nor one of an arm that no selected claim needs."""
    fault = """
if arguments == ["--help"]:
    print("--model --metrics")
    sys.exit()
"""
    path = build_with_fault(elsewhere, "pass")
    path.write_text(path.read_text("utf-8").replace("embedded =", f"{fault}\nembedded =", 1), "utf-8")
    profile = small_profile(elsewhere, "[arms.dflash2.flags]\nspec-draft-p-mn = 0.1\n")
    result = project.runpytest_inprocess(f"--specdec-profile={profile}", f"--llama-server={path}")
    assert result.ret == pytest.ExitCode.OK, result.stderr.str()


@pytest.mark.parametrize("given", [(), ("--specdec-quiet",)])
def test_a_misspelled_variable_is_told_once_above_the_tests(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...]
) -> None:
    monkeypatch.setenv("SPECDEC_PROFIL", "mine.toml")
    if not given:
        for option in OPTIONS:
            monkeypatch.delenv(option.env, raising=False)
        monkeypatch.setenv("LLAMA_SERVER", "embedded")
    told = project.runpytest_inprocess(*given).stdout.str()
    assert told.count("SPECDEC_PROFIL is no setting and says nothing; did you mean SPECDEC_PROFILE?") == 1


def test_projects_that_use_nothing_of_ours_hear_nothing_of_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for option in OPTIONS:
        monkeypatch.delenv(option.env, raising=False)
    monkeypatch.setenv("SPECDEC_PROFIL", "mine.toml")
    pytester.makepyfile("def test_it(): pass")
    assert "SPECDEC" not in pytester.runpytest_inprocess().stdout.str()
