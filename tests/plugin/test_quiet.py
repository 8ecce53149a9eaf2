"""Installed beside other plugins in a repository that does not use it, the plugin is not there."""

from __future__ import annotations

import sys

import pytest

from tests.support import SETTINGS, gate

HEAVY = ("numpy", "scipy", "httpx", "httpx_sse", "jsonschema", "gguf", "filelock", "psutil", "pynvml")
CONFTEST = f"""
import json, os, sys
from pathlib import Path

def pytest_unconfigure(config):
    who = os.environ.get("PYTEST_XDIST_WORKER", "main")
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    Path(__file__).with_name(f"loaded-{{who}}.json").write_text(json.dumps(loaded))
"""
TESTS = """
import pytest

@pytest.fixture
def server():
    return "the repository's own"

def test_passes(record_property):
    record_property("theirs", 1)

def test_fails(record_property):
    record_property("theirs", 2)
    assert False

def test_skips():
    pytest.skip("not here")

def test_has_its_own_fixture(server):
    assert server == "the repository's own"
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_it_says_nothing_writes_nothing_and_loads_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    for name in SETTINGS:
        if name.startswith("SPECDEC_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others load some of these modules themselves
    plugins = ("-p", "pytest_specdec.plugin", *(("-p", "xdist") if arguments else ()))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_theirs=TESTS)
    result = pytester.runpytest_subprocess(*plugins, *arguments, "--junit-xml=junit.xml")
    result.assert_outcomes(passed=2, failed=1, skipped=1)
    # the header of pytest lists every plugin that is installed
    said = [line for line in result.outlines if "specdec" in line and not line.startswith("plugins:")]
    assert said == []
    assert "specdec" not in result.stderr.str()
    assert not (pytester.path / ".specdec").exists()
    loaded = {path.name: path.read_text() for path in pytester.path.glob("loaded-*.json")}
    assert len(loaded) == (2 if arguments else 1)
    assert set(loaded.values()) == {"[]"}


@pytest.mark.parametrize(("arguments", "hinted"), [(["--specdec-seed=1"], True), ([], False)])
def test_who_asks_for_claims_where_there_are_none_is_told_where_they_are(
    pytester: pytest.Pytester, arguments: list[str], hinted: bool
) -> None:
    result = pytester.runpytest_inprocess(*arguments)
    told = [line for line in result.outlines if line.startswith("specdec: no claim was found here; ")]
    assert len(told) == hinted
    assert all(line.endswith(("suites", "--pyargs pytest_specdec.suites")) for line in told)


def test_importing_the_plugin_loads_little(pytester: pytest.Pytester) -> None:
    program = f"import sys, pytest_specdec.plugin; print([n for n in {HEAVY!r} if n in sys.modules])"
    result = pytester.run(sys.executable, "-c", program)
    assert result.outlines == ["[]"]


def test_collecting_claims_starts_and_writes_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.claim("a", source="t", arm="base", on="mixed")
        def test_a(cells): pass
        """
    )
    pytester.makeconftest(CONFTEST)
    result = gate("--collect-only", "-q", "-m", "exact", cwd=pytester.path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
                  PYTEST_ADDOPTS="-p pytest_specdec.plugin")  # fmt: skip
    assert result.returncode == pytest.ExitCode.OK, result.stderr
    assert "test_it.py::test_a" in result.stdout
    assert not (pytester.path / ".specdec").exists()


def test_a_claim_that_is_not_selected_costs_no_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.claim("a", source="t", arm="base", on="mixed")
        def test_a(cells): pass

        def test_b(): pass
        """
    )
    result = pytester.runpytest_inprocess("-m", "not exact")
    result.assert_outcomes(passed=1, deselected=1)
    result.stdout.no_fnmatch_line("*specdec: build*")
    assert not (pytester.path / ".specdec").exists()
