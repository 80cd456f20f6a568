"""Options of `verify` and `measure` that go together: which runs they name, and what reads them."""

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from upheaval.cli.judge_commands import RunsOptions, VerifyOptions
from upheaval.cli.parsing import newest_run
from upheaval.errors import UsageError
from upheaval_chaos.options import Command

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound=RunsOptions)


def from_one_place(options: T) -> T:
    """The options with the run that they are about, the newest where they name neither runs nor a lake.

    Raises `UsageError` unless they name run folders or a lake, and options of what reads them.
    """
    if options.lake is not None and options.runs:
        raise UsageError("name a run folder, or a lake with --lake, and not both")
    if options.master is not None and options.engine != "spark":
        raise UsageError("--master is Spark's: add --engine spark")
    if options.lake is None and options.run_id is not None:
        raise UsageError("--run names a run of a lake: add --lake")
    if options.lake is None and isinstance(options, VerifyOptions) and options.new:
        raise UsageError("--new is for the runs of a lake: add --lake")
    return options if options.lake is not None or options.runs else replace(options, runs=(newest_run(),))


def in_pipeline(name: str, options: "DataclassInstance") -> int:
    """What the pipeline's command of this name does; its package is above this one."""
    return Command(type(options), f"upheaval_pipeline.commands:{name}").function(options)
