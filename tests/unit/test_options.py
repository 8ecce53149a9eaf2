"""The table of options: three names for each, and the values that each takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_specdec.options import OPTIONS, Option, misspelled_lines
from pytest_specdec.records import Budget, Settings

BY_FLAG = {option.flag: option for option in OPTIONS}


def test_every_option_is_a_setting_and_has_names_of_its_own() -> None:
    fields = set(Settings.__dataclass_fields__)
    assert {option.dest for option in OPTIONS} <= fields
    for names in ("flag", "dest", "ini", "env"):
        assert len({getattr(option, names) for option in OPTIONS}) == len(OPTIONS)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.flag)
def test_names_and_help_follow_the_rule(option: Option) -> None:
    assert option.flag.startswith(("--specdec-", "--llama-server"))
    assert option.ini.startswith("specdec_")
    assert option.env == option.ini.upper()
    assert "-" not in option.ini
    words = option.argparse_keywords["help"]
    assert option.ini in words
    assert option.env in words
    assert option.help[0].isupper()
    assert option.argparse_keywords["default"] is None


def test_the_names_of_the_design() -> None:
    assert (BY_FLAG["--llama-server"].ini, BY_FLAG["--llama-server"].env) == (
        "specdec_llama_server",
        "SPECDEC_LLAMA_SERVER",
    )
    assert BY_FLAG["--specdec-run-dir"].ini == "specdec_run_dir"


@pytest.mark.parametrize(
    ("flag", "text", "value"),
    [
        ("--llama-server", "embedded", "embedded"),
        ("--specdec-server-url", "base=http://h:1/", ("base", "http://h:1")),
        ("--specdec-server-url", "dflash2@5=https://h", ("dflash2@5", "https://h")),
        ("--specdec-launcher", "numactl -N 0 'a b'", ("numactl", "-N", "0", "a b")),
        ("--specdec-arm-args", "", ()),
        ("--specdec-baselines", "/x/y", Path("/x/y")),
        ("--specdec-inconclusive", "skip", "skip"),
        ("--specdec-update-baseline", "new", "new"),
        ("--specdec-budget", "6 pairs", Budget(pairs=6)),
        ("--specdec-budget", "10m", Budget(seconds=600.0)),
        ("--specdec-quiet", "Yes", True),
        ("--specdec-quiet", "0", False),
    ],
)
def test_values_are_parsed(flag: str, text: str, value: Any) -> None:
    assert BY_FLAG[flag].parse(text) == value


@pytest.mark.parametrize(
    ("flag", "text", "words"),
    [
        ("--specdec-server-url", "http://h:1", "ARM=URL"),
        ("--specdec-server-url", "=http://h:1", "ARM=URL"),
        ("--specdec-server-url", "base=ftp://h", "ARM=URL"),
        ("--specdec-launcher", "numactl '", "as a shell would read it"),
        ("--specdec-inconclusive", "pass", "one of fail, skip"),
        ("--specdec-update-baseline", "", "one of all, new, off"),
        ("--specdec-budget", "0 pairs", "at least 6 pairs per contrast: fewer decide nothing"),
        ("--specdec-budget", "5 pairs", "at least 6 pairs per contrast: fewer decide nothing"),
        ("--specdec-budget", "0.0m", "a time above zero"),
        ("--specdec-quiet", "perhaps", "one of true, false"),
    ],
)
def test_bad_values_are_answered_with_the_valid_ones(flag: str, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BY_FLAG[flag].parse(text)


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert BY_FLAG["--specdec-run-dir"].parse("~/run") == Path("/home/me/run")


def test_a_variable_that_is_no_setting_is_told_with_the_nearest_that_is_one() -> None:
    ours = ("RUN_ID", "LISTING", "SETTINGS", "REAL_DECISIONS", "REAL_DECISIONS_PROFILE", "NATIVE_OLD", "SANDBOX_MEMORY")
    names = [*(option.env for option in OPTIONS), *(f"SPECDEC_{name}" for name in ours), "HOME", "MY_SPECDEC_PROFIL"]
    assert misspelled_lines(dict.fromkeys(names, "")) == []
    (near,) = misspelled_lines({"SPECDEC_PROFIL": "mine.toml"})
    assert near.endswith("SPECDEC_PROFIL is no setting and says nothing; did you mean SPECDEC_PROFILE?")
    (far,) = misspelled_lines({"SPECDEC_XYZ_123": "1"})
    assert "pytest --help" in far
