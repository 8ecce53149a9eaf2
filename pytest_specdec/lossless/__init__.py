"""Where two token streams part, and whether that is a tie."""

from pytest_specdec.lossless.fork import Fork, first_fork
from pytest_specdec.lossless.judgement import judge

__all__ = ["Fork", "first_fork", "judge"]
