"""How a job hands over what it found out: rows of one shape, and JSON of the first thing that breaks a promise.

This module knows nothing of promises.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, functions as F


@dataclass(frozen=True)
class Evidence:
    """What a job found out: numbers, and a text (of a judgement: its first violation, or None)."""

    kind: str
    key: int | None
    number: int | None
    text: str | None


def evidence(
    kind: str, number: Column | None = None, text: Column | None = None, key: Column | None = None
) -> list[Any]:
    """The columns of an evidence row; the frame has the run."""
    none = F.lit(None)
    return [
        F.col("run"),
        F.lit(kind).alias("kind"),
        (none if key is None else key).cast("long").alias("key"),
        (none if number is None else number).cast("long").alias("number"),
        (none if text is None else text).cast("string").alias("text"),
    ]


def first_of(violation: Any, order: Any, *columns: Any) -> Any:
    """An aggregate: what the row holds that breaks a promise and comes first, as JSON; null when none does."""
    return F.to_json(F.min(F.when(violation, F.struct(order.alias("at"), *columns))))
