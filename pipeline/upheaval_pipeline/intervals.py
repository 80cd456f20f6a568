"""Intervals of 95 % in SQL: of rates after Wilson, of mean times by Student's t, of differences after Newcombe."""

from typing import Final

NOT_VALID, LATENCY, FAILOVER = "not valid", "latency without faults, ms", "failover, ms"
"""What is compared between runs."""
SLOWER_MIN: Final = 0.1
"""A time that is longer by less is no regression, however sure that is."""
Z2: Final = "3.841459D"
"""The square of the normal distribution's quantile for an interval of 95 %."""
Z2_OF_ALL: Final = f"{Z2} + CASE WHEN what = '{NOT_VALID}' THEN 3 ELSE 2 END * ln(count(*) OVER ())"
"""The same for all n rows of a query together, where one interval that misses is one too many: each has 5 % / n, after
Bonferroni. For a normal distribution 2 * ln(n) suffices; shares of rare failures are skewed, and need more.
"""


def rate_bound(sign: str, count: str, of: str, z2: str = Z2) -> str:
    """The lower (`-`) or upper (`+`) bound of a rate, after Wilson."""
    p = f"{count} / {of}"
    half = f"sqrt({z2} * ({p} * (1 - {p}) / {of} + {z2} / 4 / {of} / {of}))"
    return f"greatest(0D, least(1D, ({p} + {z2} / 2 / {of} {sign} {half}) / (1 + {z2} / {of})))"


def level_bound(sign: str, prefix: str, z2: str = Z2) -> str:
    """A bound of the mean level of runs: of a rate after Wilson, of a time by Student's t."""
    total, runs, squares, level = (f"{prefix}{name}" for name in ("total", "runs", "squares", "level"))
    variance = f"greatest(0D, {squares} - {total} * {level}) / nullif({runs} - 1, 0) / {runs}"
    half = f"sqrt({variance} * {student2(f'nullif({runs} - 1, 0)', z2)})"
    return f"CASE WHEN what = '{NOT_VALID}' THEN {rate_bound(sign, total, runs, z2)} ELSE {level} {sign} {half} END"


def student2(freedom: str, z2: str) -> str:
    """The square of Student's quantile after Wallace, never below it: by 1 % above it from three degrees of freedom on,
    by 38 % for one.
    """
    return f"{freedom} * (exp({z2} / {freedom} * pow((8 * {freedom} + 3) / (8 * {freedom} + 1), 2)) - 1)"


def level_bounds(z2: str = Z2) -> str:
    """The bounds of a level and of the one that it is compared with, as columns."""
    ends = (("", "lowest"), ("", "highest"), ("base_", "lowest"), ("base_", "highest"))
    return ", ".join(
        f"{level_bound('-' if end == 'lowest' else '+', prefix, z2)} AS {prefix}{end}" for prefix, end in ends
    )


DIFFERENCE: Final = """level - base_level AS difference,
        level - base_level - sqrt(pow(level - lowest, 2) + pow(base_highest - base_level, 2)) AS lowest,
        level - base_level + sqrt(pow(highest - level, 2) + pow(base_level - base_lowest, 2)) AS highest"""
"""Of two levels with their bounds, as columns."""


def is_worse(prefix: str) -> str:
    """The condition of a difference that is bad news: its interval is above 0, that of a time above the least."""
    what, lowest, base = (f"{prefix}{name}" for name in ("what", "lowest", "base_level"))
    return f"{lowest} > CASE WHEN {what} = '{NOT_VALID}' THEN 0D ELSE {base} * {SLOWER_MIN}D END"
