"""Parses seeds from a command line. Imports next to nothing, because the pytest plugin uses it, too."""

from typing import Final

from upheaval.errors import UsageError

SEED_DIGITS: Final = 18


def parse_seed(text: str) -> int:
    """Parse one seed. Raises `UsageError`."""
    if not text.isdecimal() or len(text) > SEED_DIGITS:
        raise UsageError(f"a seed is a number from 0 with at most {SEED_DIGITS} digits, not {text!r}")
    return int(text)


def parse_seeds(text: str) -> range:
    """Parse `A..B`, both included, or one number, with at most `SEED_DIGITS` digits. Raises `UsageError`."""
    first, separator, last = text.partition("..")
    if not first.isdecimal() or (separator and not last.isdecimal()):
        raise UsageError(f"seeds are given as A..B, such as 1..500, not {text!r}")
    if max(len(first), len(last)) > SEED_DIGITS:
        raise UsageError(f"a seed has at most {SEED_DIGITS} digits")
    seeds = range(int(first), int(last if separator else first) + 1)
    if not seeds:
        raise UsageError(f"no seeds in {text}")
    return seeds
