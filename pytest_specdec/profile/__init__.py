"""Profiles: TOML files that name models, flags, arms and the sizes of the workloads."""

from pytest_specdec.profile.arms import compose, recorded_as
from pytest_specdec.profile.loader import BUILTIN, load
from pytest_specdec.profile.model_files import ModelFile, resolve

__all__ = ["BUILTIN", "ModelFile", "compose", "load", "recorded_as", "resolve"]
