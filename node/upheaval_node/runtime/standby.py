"""`python -m upheaval_node.runtime.standby --config FILE`: a standby of a cluster.

Without `--config` the configuration is the JSON object in the variable UPHEAVAL_STANDBY_CONFIG; a relative folder then
is relative to the working directory. Exit statuses are those of members (`exit_status`).
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from upheaval_node.files import layout
from upheaval_node.runtime.backup import base_of, configured_object, plan_of, with_paths
from upheaval_node.runtime.credentials_file import credentials_supplier
from upheaval_node.runtime.node_process import NodeProcess
from upheaval_node.runtime.programs import enter_folder, run_program
from upheaval_node.service.loader import load_service
from upheaval_node.standby.config import StandbyConfig, standby_config_from_fields
from upheaval_node.standby.node import build_standby

CONFIG_VARIABLE: Final = "UPHEAVAL_STANDBY_CONFIG"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a standby; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="upheaval-standby", description="Run the services of a cluster on a copy of its log."
    )
    parser.add_argument("--config", metavar="FILE", help=f"JSON file; without it, the object in {CONFIG_VARIABLE}")
    options = parser.parse_args(arguments)

    def make() -> NodeProcess:
        config = read_standby_config(options.config)
        backup = config.backup
        credentials = credentials_supplier(backup.credentials_file)
        enter_folder(backup.folder)
        sys.path[:0] = config.python_path
        services = [load_service(name) for name in config.services]
        service_marks = [layout.service_mark(index) for index in range(len(services))]
        return NodeProcess(
            plan_of(backup, service_marks, lambda ports: build_standby(config, ports, services, credentials))
        )

    return run_program("upheaval-standby", make)


def read_standby_config(path: str | None) -> StandbyConfig:
    """The configuration in a file, or in the environment with None. Raises `UsageError`.

    Relative paths are relative to the file.
    """
    config = standby_config_from_fields(configured_object(path, CONFIG_VARIABLE))
    base = base_of(path)
    python_path = tuple(os.path.join(base, directory) for directory in config.python_path)
    return replace(config, backup=with_paths(config.backup, base), python_path=python_path)


if __name__ == "__main__":
    assert __debug__, "assertions guard what the node promises: do not switch them off"
    sys.exit(main())
