"""One set of verdicts, several renderings."""

from pytest_specdec.report.properties import from_properties, to_properties
from pytest_specdec.report.results import results_document
from pytest_specdec.report.text import ending_lines, explanation, nothing_judged, summary_lines, table_lines, word_of

__all__ = [
    "ending_lines",
    "explanation",
    "from_properties",
    "nothing_judged",
    "results_document",
    "summary_lines",
    "table_lines",
    "to_properties",
    "word_of",
]
