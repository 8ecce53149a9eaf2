"""Where two token streams part, and whether that is a tie within the numeric noise of this build and device."""

from pytest_specdec.lossless.distribution import judge_distribution
from pytest_specdec.lossless.fork import Fork, first_fork
from pytest_specdec.lossless.judgement import Replay, judge, judge_replies
from pytest_specdec.lossless.noise import Noise, Noises, Rescored, noise_from
from pytest_specdec.lossless.sampled import judge_sampled

__all__ = [
    "Fork",
    "Noise",
    "Noises",
    "Replay",
    "Rescored",
    "first_fork",
    "judge",
    "judge_distribution",
    "judge_replies",
    "judge_sampled",
    "noise_from",
]
