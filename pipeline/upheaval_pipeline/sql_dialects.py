"""SQL as Spark reads it, for DuckDB: queries and views are written once.

sqlglot translates. The repairs here are of what it leaves different: a percentile is interpolated between two values, a
list of nothing is empty, a count of nothing is 0, and a filter is one condition.
"""

from functools import cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from upheaval.errors import UsageError


@cache
def as_duckdb(sql: str) -> str:
    """One query. Raises `UsageError` for anything else."""
    return str(_query(sql).transform(_repaired).sql(dialect="duckdb"))


def names_in(sql: str) -> set[str]:
    """The tables and views that one query reads. Raises `UsageError` for anything else."""
    return {table.name.lower() for table in _query(sql).find_all(exp.Table)}


def _query(sql: str) -> exp.Query:
    try:
        statements = [statement for statement in sqlglot.parse(sql, read="spark") if statement is not None]
    except (ParseError, TokenError) as error:
        raise UsageError(f"the query cannot be run: {_reason(error)}") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise UsageError("the query cannot be run: expected one SELECT, and nothing that changes anything")
    return statements[0]


def _reason(error: ParseError | TokenError) -> str:
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        return f"{first['description']} line {first['line']}, column {first['col']}, at {first['highlight']!r}"
    return str(error).strip().splitlines()[0]


def _repaired(node: exp.Expression) -> exp.Expression:
    match node:
        case exp.Quantile():
            return exp.Anonymous(this="quantile_cont", expressions=[node.this, node.args["quantile"]])
        case exp.CountIf() if not isinstance(node.parent, exp.Filter):
            # DuckDB's own is null over a window without rows.
            return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=node.this.copy()))
        case exp.Filter(this=exp.ArrayAgg() | exp.ArrayUniqueAgg()):
            return _list_of(node.this, node.expression.this)
        case exp.ArrayAgg() | exp.ArrayUniqueAgg() if not isinstance(node.parent, exp.Filter | exp.Window):
            return _list_of(node, None)
        case _:
            return node


def _list_of(aggregate: exp.Expression, condition: exp.Expression | None) -> exp.Expression:
    """A list of the values that are not null, empty where there is none, as in Spark."""
    value = aggregate.this
    listed = exp.Distinct(expressions=[value.copy()]) if isinstance(aggregate, exp.ArrayUniqueAgg) else value.copy()
    is_there = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
    where = exp.Where(this=is_there if condition is None else exp.and_(is_there, condition.copy()))
    filtered = exp.Filter(this=exp.Anonymous(this="list", expressions=[listed]), expression=where)
    return exp.Coalesce(this=filtered, expressions=[exp.Array()])
