"""The noise that is measured on a real server is that of a verification, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import gate, small_profile

CLAIM = """
import pytest

@pytest.mark.claim("noise", source="t", arm="dflash2", on="mixed")
def test_noise(cells, lossless, claim):
    cells["dflash2"]
    noise = lossless.noise
    words = f"{noise.verification.bound_nats:.2g} nats in chunks, {noise.large_batch.bound_nats:.2g} in large batches"
    claim.holds(noise.verification.positions > 50, measured=words, expected="positions of one text in several widths")
    claim.holds(noise.verification.bound_nats < 1e-3, measured=words, expected="rounding of a small batch")
"""
SHORT = """
import pytest

@pytest.mark.claim("noise", source="t", arm="dflash2", on="mixed")
def test_noise(cells, lossless, claim):
    cells["dflash2"]
    positions = lossless.noise.verification.positions
    claim.holds(positions == 0, measured=f"{positions} positions", expected="none: no reply is as long as a chunk")
"""


@pytest.mark.parametrize("prompts", [1, 3])
def test_one_text_in_several_widths_keeps_the_prompt_as_the_base_read_it(tmp_path: Path, prompts: int) -> None:
    """A prompt's last token, computed again alone, once put the noise of large batches into every chunk behind it."""
    (tmp_path / "test_it.py").write_text(CLAIM, "utf-8")
    done = gate(f"--specdec-profile={small_profile(tmp_path, prompts=prompts, n_predict=96)}", cwd=tmp_path)
    assert done.returncode == pytest.ExitCode.OK, done.stdout


def test_replies_shorter_than_a_chunk_have_no_noise_to_measure(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SHORT, "utf-8")
    done = gate(f"--specdec-profile={small_profile(tmp_path, n_predict=6)}", cwd=tmp_path)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
