"""Workloads: named, hashed, ordered sets of prompts, with the parameters of their requests."""

from pytest_specdec.workloads.registry import load

__all__ = ["load"]
