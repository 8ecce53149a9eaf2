"""Requests that a property test draws, and how a failing one is told. Needs hypothesis, which only such tests load."""

from pytest_specdec.properties.counterexample import curl, problem_of
from pytest_specdec.properties.effort import settings_for
from pytest_specdec.properties.scenarios import Ask, Scenario, scenarios

__all__ = ["Ask", "Scenario", "curl", "problem_of", "scenarios", "settings_for"]
