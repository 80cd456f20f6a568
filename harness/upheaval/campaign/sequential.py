"""Whether something that does not repeat fails alike often enough: a sequential test, which needs few runs.

Wald's sequential probability ratio test (Sequential Tests of Statistical Hypotheses, Annals of Mathematical Statistics
16, 1945) between two rates. After each run, the logarithm of the ratio of their likelihoods decides or asks for more.
"""

from math import log
from typing import Final

OFTEN: Final = 0.5
RARELY: Final = 0.1
"""The two rates."""
ERROR: Final = 0.1
"""The highest probability of each wrong decision."""
RUNS_MAX: Final = 10
"""After this many runs, a test that is still open decides for the likelier rate, which keeps both errors below that."""
_ALIKE: Final = log(OFTEN / RARELY)
_OTHERWISE: Final = log((1 - OFTEN) / (1 - RARELY))
_BOUND: Final = log((1 - ERROR) / ERROR)


def fails_often(alike: int, runs: int) -> bool | None:
    """The decision after that many runs, of which some failed alike; None if it needs another run."""
    ratio = alike * _ALIKE + (runs - alike) * _OTHERWISE
    return ratio > 0 if abs(ratio) >= _BOUND or runs >= RUNS_MAX else None
