"""Declarations: what they select, what is refused, and what pytest explains of the plugin."""

from __future__ import annotations

import pytest

from pytest_specdec.markers import FAMILIES, KINDS
from pytest_specdec.options import OPTIONS
from tests.support import small_profile

SELECTED = """
import pytest

@pytest.mark.claim("exact", source="t", arm="dflash2@5", on="mixed")
def test_exact(): pass

@pytest.mark.claim("stack", source="t", arm="dflash2+k4v", on="mixed", kind="lossless", over="base")
def test_stack(): pass

@pytest.mark.claim("speed", source="t", arm="dflash2", over="base", on="mixed")
def test_speed(): pass

@pytest.mark.claim("lookup", source="t", arm="ngram", on="mixed", kind="memory")
def test_lookup(): pass

@pytest.mark.claim("long", source="t", arm="dflash2", on="mixed", study=True)
def test_long(): pass

@pytest.mark.claim("absent", source="t", arm="mtp@3", on="mixed")
def test_absent(): pass

@pytest.mark.claim("each", source="t", each=["dflash2", "ngram"], on="mixed")
def test_each(arm): pass

@pytest.mark.claim("judged", source="t", each=["judged", "dflash2"], on="mixed")
def test_judged(): pass
"""


def collected(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    result = pytester.runpytest_inprocess("--collect-only", "-q", *arguments)
    return [line.partition("::test_")[2] for line in result.outlines if "::test_" in line]


MARKERS = {
    "exact": {"dflash2", "exact"},
    "stack": {"dflash2", "ngram", "lossless"},
    "speed": {"dflash2", "speed"},
    "lookup": {"ngram", "memory"},
    "long": {"study", "exact"},
    "absent": {"mtp", "exact"},
    "each[dflash2]": {"dflash2", "exact"},
    "each[ngram]": {"ngram", "exact"},
}


def test_markers_come_from_the_declaration(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SELECTED)
    items, _ = pytester.inline_genitems()
    known = {*FAMILIES, *KINDS, "study"}
    found = {item.name.removeprefix("test_"): {m.name for m in item.iter_markers()} & known for item in items}
    assert {name: markers for name, markers in found.items() if not name.startswith("judged")} == MARKERS
    assert found["judged[dflash2+mod+k4v]"] == {"dflash2", "ngram", "exact"}


def test_each_judged_is_repeated_over_the_arms_of_the_profile(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SELECTED)
    profile = small_profile(pytester.path)
    found = collected(pytester, "-k", "test_judged", f"--specdec-profile={profile}")
    assert found == ["judged[dflash2]"]


def test_they_are_there_when_the_selection_is_made(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SELECTED)
    assert collected(pytester, "-m", "dflash2 and exact and not ngram and not mtp and not study") == [
        "exact", "each[dflash2]", "judged[dflash2]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("declaration", "words"),
    [
        ('source="t", arm="base"', ["its one positional argument is the claim's id"]),
        ('"a", "b", source="t", arm="base"', ["its one positional argument is the claim's id"]),
        ('"a", arm="base"', ["it has no source"]),
        ('"a", source="t"', ["it names no arm"]),
        ('"a", source="t", arn="base"', ["unknown keyword 'arn'", "did you mean 'arm'?"]),
        ('"a", source="t", arm="base", kind="fast"', ["there is no kind 'fast'", "exact, lossless, speed, memory"]),
    ],
)
def test_a_wrong_declaration_is_a_usage_error(pytester: pytest.Pytester, declaration: str, words: list[str]) -> None:
    pytester.makepyfile(test_it=f"import pytest\n\n@pytest.mark.claim({declaration})\ndef test_a(): pass\n")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = result.stderr.str()
    assert "ERROR: test_it.py::test_a: reading the declaration" in told
    for word in words:
        assert word in told
    assert "Traceback" not in told


def test_one_arm_may_be_given_as_a_word(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it='import pytest\n\n@pytest.mark.claim("a", source="t", arms="dflash2")\ndef test_a(): pass\n'
    )
    assert collected(pytester, "-m", "dflash2") == ["a"]


def test_asking_for_something_undeclared_is_told_without_a_traceback(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.claim("cell", source="t", arm="dflash2", on="mixed")
        def test_cell(cells):
            cells["base"]

        @pytest.mark.claim("workload", source="t", arm="dflash2", on="mixed")
        def test_workload(cells):
            cells.on("width")

        @pytest.mark.claim("which", source="t", arm="dflash2", on=["mixed", "width"])
        def test_which(cells):
            cells["dflash2"]

        @pytest.mark.claim("live", source="t", arm="dflash2", on="mixed")
        def test_live(server):
            server.start("base")

        def test_no_claim(cells):
            pass

        @pytest.mark.claim("behaviour", source="t", arm="dflash2", on="mixed")
        def test_behaviour(baseline):
            baseline.behaves("odd", measured="x", otherwise=None, evidence={})
        """
    )
    result = pytester.runpytest_subprocess("-v")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random([
        "asking for a cell of 'base' in the claim cell",
        "asking for cells on 'width' in the claim workload",
        "asking for a cell without its workload in the claim which",
        "asking for a server of 'base' in the claim live",
        "giving the fixture cells to test_it.py::test_no_claim",
        "judging the behaviour of behaviour",
        "  why:    it declares the arms [[]'dflash2'[]]",
        "  why:    the test declares no claim",
        "  remedy: declare in the marker whatever the test uses, so that it can be planned",
    ])  # fmt: skip
    for line in result.outlines:
        assert "Traceback" not in line
        assert "pytest_specdec/" not in line


@pytest.mark.parametrize("name", ["width.clamp", "width.clamp[dflash2]", "clamp[dflash2", "not other"])
def test_a_claim_is_selected_by_the_name_that_is_printed(pytester: pytest.Pytester, name: str) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.claim("width.clamp", source="t", each=["dflash2"], on="mixed")
        def test_one(cells):
            pass

        @pytest.mark.claim("other", source="t", arm="dflash2", on="mixed")
        def test_two(cells):
            pass
        """
    )
    result = pytester.runpytest_inprocess("--collect-only", "-q", "-k", name)
    result.stdout.fnmatch_lines(["test_it.py::test_one*"])
    result.stdout.no_fnmatch_line("*test_two*")


def test_pytest_explains_the_markers(pytester: pytest.Pytester) -> None:
    told = pytester.runpytest_inprocess("--markers").stdout.str()
    assert "@pytest.mark.claim(id, *, source, arm=" in told
    for name, meaning in {**FAMILIES, **KINDS}.items():
        assert f"@pytest.mark.{name}: {meaning}" in told


def test_pytest_explains_the_fixtures(pytester: pytest.Pytester) -> None:
    told = pytester.runpytest_inprocess("--fixtures").stdout.str()
    for name in ("arm", "baseline", "cells", "claim", "server"):
        assert f"\n{name} -- " in told
        described = told.partition(f"\n{name} -- ")[2].splitlines()[1]
        assert described.strip()
        assert "no docstring" not in described


def test_pytest_explains_every_option(pytester: pytest.Pytester) -> None:
    told = " ".join(pytester.runpytest_inprocess("--help").stdout.str().split())
    for option in OPTIONS:
        assert option.flag in told
        assert f"[ini {option.ini}, env {option.env}]" in told
        assert f"{option.ini} (" in told  # among the ini options, too
