"""A run whose every text wants something: what a build under test, or whoever wrote its results, may say."""

from __future__ import annotations

from pytest_specdec.records import BuildIdentity, ClaimKind, Reason, Status, Verdict
from pytest_specdec.report.data import ReportData

__all__ = ["HOSTILE", "hostile_report"]

HOSTILE = (
    "</code></pre></details><script>alert(1)</script><img src=x onerror=alert(1)>",
    "| a | b |\n|---|---|\n[click](javascript:alert(1)) ![](https://evil.example/x.png)",
    "::set-output name=token::x\n  ::error file=a,line=1::forged\n##[set-env name=PATH;]evil\n::stop-commands::x",
    "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x1b[2J\x9b31m\x00\x07",
    "@ggml-org/maintainers #1 GH-1 https://evil.example www.evil.example a@evil.example :smile:",
    "`code` ``` ~~~ *bold* _under_ ~~gone~~ <!-- hidden -->\r\n# heading\r- item",
    "‮right to left‬ zero​width \u2028 line %0A%0D %25",
)


def hostile_report() -> ReportData:
    """Every field that a stranger can fill holds one of the strings."""
    build = BuildIdentity("path", HOSTILE[2], None, HOSTILE[1], HOSTILE[0], HOSTILE[5])
    base = BuildIdentity("path", "/base", 11434, "abc1234", "version: 0.1.2-dev (build 11434)", "asked for")
    statuses = (Status.FAIL, Status.VOID, Status.INCONCLUSIVE, Status.NOT_JUDGED, Status.PASS)
    tests = [(f"suites/test_x.py::test[{text}]", _verdict(text, statuses[n % 5])) for n, text in enumerate(HOSTILE)]
    return ReportData(
        run=HOSTILE[3], started="2026-11-29T23:48:40+00:00", ended="", build=build, base=base, profile=HOSTILE[1],
        device=HOSTILE[4], machine=HOSTILE[6], exit_status=1, tests=tuple(tests),
    )  # fmt: skip


def _verdict(text: str, status: Status) -> Verdict:
    return Verdict(
        claim=f"claim[{text}]",
        status=status,
        kind=ClaimKind.LOSSLESS,
        reason=Reason.TOKENS_DIFFER,
        measured=text,
        expected=text[::-1],
        source=text,
        detail="\n".join(HOSTILE),
        remedy=text,
        evidence={"text": text},
    )
