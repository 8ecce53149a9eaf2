"""The members do on the embedded server what their card says that another build measured."""

from __future__ import annotations

import sys

import pytest

from models.measure import measure
from models.settings import SHIPPED
from pytest_specdec.models.card import figures

DRAFTERS = ("dflash2@7", "dflash1@7", "draft@7")
NEAR = 0.03  # of the drafted tokens


def test_every_member_accepts_as_on_its_card_and_is_lossless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_SERVER", f"{sys.executable} -m pytest_specdec.server.embedded")
    measured = dict(measure(lambda arm: arm in DRAFTERS, SHIPPED, names=("mixed",)))
    assert set(measured) == {"base", *DRAFTERS}
    card = figures()
    for arm in DRAFTERS:
        row = measured[arm]["mixed"]
        assert row["acceptance"] == pytest.approx(card[arm, "mixed"].acceptance, abs=NEAR), arm
        assert row["drafted"] > 1000, arm
        assert row["same_as_base"] == row["prompts"], arm
