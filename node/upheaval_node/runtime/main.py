"""`python -m upheaval_node.runtime.main --config FILE [--component NAME]`: one process of a member.

Parses, runs, and turns the end into a numbered exit status; see `exit_status`.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from upheaval_node.member_config import MemberConfig, config_from_fields
from upheaval_node.runtime.process import ALL, MemberProcess
from upheaval_node.runtime.programs import enter_folder, read_json_object, run_program


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one process of a member; returns its exit status."""
    parser = argparse.ArgumentParser(prog="upheaval-member", description="Run one process of a cluster member.")
    parser.add_argument("--config", required=True, metavar="FILE", help="JSON file that configures the member")
    parser.add_argument(
        "--component", default=ALL, metavar="NAME", help="all (default), archive, consensus, service, or service-N"
    )
    options = parser.parse_args(arguments)

    def make() -> MemberProcess:
        config = read_config(options.config)
        enter_folder(config.folder)
        sys.path[:0] = config.python_path
        return MemberProcess(config, options.component)

    return run_program(f"upheaval-member {options.component}", make)


def read_config(path: str) -> MemberConfig:
    """The configuration in a JSON file; a relative folder is relative to the file. Raises `UsageError`."""
    config = config_from_fields(read_json_object(path))
    base = os.path.dirname(os.path.abspath(path))
    python_path = tuple(os.path.join(base, directory) for directory in config.python_path)
    return replace(config, folder=os.path.join(base, config.folder), python_path=python_path)


if __name__ == "__main__":
    assert __debug__, "assertions guard what the node promises: do not switch them off"
    sys.exit(main())
