"""The tiny GGUF family that ships with the package, and its inflated target for speed panels."""

from __future__ import annotations

from pytest_specdec.models.family import Member, member_path, members
from pytest_specdec.models.inflate import FEED_FORWARD, inflated_target

__all__ = ["FEED_FORWARD", "Member", "inflated_target", "member_path", "members"]
