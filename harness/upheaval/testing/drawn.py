"""Values drawn from a strategy of hypothesis by a seed, outside of a hypothesis test.

A test that draws its requests by the seed of its cluster is repeated by that seed, and `--seeds A..B` draws others.
"""

from typing import TYPE_CHECKING, TypeVar

from upheaval.errors import UsageError

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def drawn(strategy: "SearchStrategy[T]", count: int, seed: int) -> list[T]:
    """So many values, the same for a seed and a version of hypothesis; they may repeat.

    Raises `UsageError` where hypothesis is not installed.
    """
    try:
        import hypothesis
    except ImportError:
        raise UsageError("drawing requests needs hypothesis: pip install hypothesis") from None
    values: list[T] = []

    # A round has each value once: a strategy with few values needs several.
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
