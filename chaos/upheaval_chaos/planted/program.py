"""The test build of a member: one process of it as `upheaval_node.runtime.main` runs it, but with a planted bug.

The whole process is the test build: what makes members is replaced for good. This module knows neither harness nor
engines.
"""

import argparse
import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, ParamSpec

from upheaval_chaos.errors import UsageError
from upheaval_chaos.options import option, parse_known
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import bug_named
from upheaval_node.member import MemberAgent
from upheaval_node.runtime import main as node, process
from upheaval_node.runtime.exit_status import ExitStatus

VARIABLE: Final = "UPHEAVAL_PLANTED"
_BUILDERS: Final = ("build_together", "build_archive_process", "build_consensus_process", "build_service_process")

Arguments = ParamSpec("Arguments")


@dataclass(frozen=True)
class _Options:
    planted: str | None = option("--planted")


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the bug, then run one process of a member. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="upheaval-member-with-a-bug", add_help=False, allow_abbrev=False)
    options, others = parse_known(parser, _Options, arguments)
    try:
        bug = bug_named(os.environ.get(VARIABLE, "") if options.planted is None else options.planted)
    except UsageError as error:
        print(f"upheaval-member: {error}", file=sys.stderr)
        return ExitStatus.USAGE
    print(f"upheaval-member: test build with a planted bug, {bug.name}: {bug.breaks}", file=sys.stderr, flush=True)
    for name in _BUILDERS:
        setattr(process, name, _planting(getattr(process, name), bug))
    return node.main(others)


def _planting(build: Callable[Arguments, list[MemberAgent]], bug: PlantedBug) -> Callable[Arguments, list[MemberAgent]]:
    @functools.wraps(build)
    def build_with_bug(*args: Arguments.args, **keywords: Arguments.kwargs) -> list[MemberAgent]:
        agents = build(*args, **keywords)
        bug.plant(agents)
        return agents

    return build_with_bug
