"""Draws values of a hypothesis strategy by a seed, outside a hypothesis test.

A test that draws its requests by the seed of its cluster can be repeated by that seed, and `--seeds A..B` draws others.
"""

from typing import TYPE_CHECKING, TypeVar

from upheaval.errors import UsageError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def drawn(strategy: "SearchStrategy[T]", count: int, seed: int) -> list[T]:
    """`count` values, the same for one seed and one version of hypothesis. Values may repeat.

    Raises `UsageError` where hypothesis is not installed.
    """
    try:
        import hypothesis
    except ImportError:
        raise UsageError("drawing requests needs hypothesis: pip install hypothesis") from None
    values: list[T] = []

    # One round yields each value once, so a strategy with few values needs several.
    while len(values) < count:

        @hypothesis.seed(seed + len(values))
        @hypothesis.settings(
            max_examples=count - len(values),
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(strategy)
        def draw(value: T) -> None:
            values.append(value)

        draw()
    return values[:count]
