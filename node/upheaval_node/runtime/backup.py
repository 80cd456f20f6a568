"""`python -m upheaval_node.runtime.backup --config FILE`: a backup of a cluster.

Without `--config` the configuration is the JSON object in the variable UPHEAVAL_BACKUP_CONFIG; a relative folder then
is relative to the working directory. Exit statuses are those of members (`exit_status`).
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from upheaval_node.backup.config import BackupConfig, backup_config_from_fields
from upheaval_node.backup.node import build_backup
from upheaval_node.errors import UsageError
from upheaval_node.files import layout
from upheaval_node.runtime.credentials_file import ENVIRONMENT_PREFIX, credentials_supplier
from upheaval_node.runtime.node_process import Build, NodePlan, NodeProcess, StatusPage
from upheaval_node.runtime.programs import enter_folder, parse_json_object, read_json_object, run_program
from upheaval_node.runtime.status_page import open_backup_page

CONFIG_VARIABLE: Final = "UPHEAVAL_BACKUP_CONFIG"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a backup; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="upheaval-backup", description="Keep a copy of a cluster's log and snapshots."
    )
    parser.add_argument("--config", metavar="FILE", help=f"JSON file; without it, the object in {CONFIG_VARIABLE}")
    options = parser.parse_args(arguments)

    def make() -> NodeProcess:
        config = read_backup_config_file(options.config)
        credentials = credentials_supplier(config.credentials_file)
        enter_folder(config.folder)
        return NodeProcess(plan_of(config, (), lambda ports: build_backup(config, ports, credentials)))

    return run_program("upheaval-backup", make)


def plan_of(config: BackupConfig, service_marks: Sequence[str], build: Build) -> NodePlan:
    """The process of a backup, or of a standby, which is one with services."""
    endpoints = config.endpoints
    return NodePlan(
        name=config.name,
        marks=(layout.CLUSTER_MARK, layout.ARCHIVE_MARK, *service_marks),
        addresses=(endpoints.consensus, endpoints.catchup, endpoints.archive),
        build=build,
        config=config,
        status_page=_status_page(config),
    )


def _status_page(config: BackupConfig) -> StatusPage | None:
    address = config.metrics_address
    if address is None:
        return None
    return lambda network, cnc: open_backup_page(network, address, cnc.counters((0, 0)), cnc.header, config.name)


def read_backup_config_file(path: str | None) -> BackupConfig:
    """The configuration in a file, or in the environment with None. Raises `UsageError`.

    Relative paths are relative to the file.
    """
    return with_paths(backup_config_from_fields(configured_object(path, CONFIG_VARIABLE)), base_of(path))


def base_of(path: str | None) -> str:
    """The folder that relative paths of a configuration are relative to."""
    return os.path.abspath(os.curdir if path is None else os.path.dirname(path))


def with_paths(config: BackupConfig, base: str) -> BackupConfig:
    """The configuration with absolute paths."""
    source = config.credentials_file
    if source and not source.startswith(ENVIRONMENT_PREFIX):
        source = os.path.join(base, source)
    return replace(config, folder=os.path.join(base, config.folder), credentials_file=source)


def configured_object(path: str | None, variable: str) -> Mapping[str, object]:
    """The JSON object in a file, or in a variable of the environment. Raises `UsageError`."""
    if path is not None:
        return read_json_object(path)
    text = os.environ.get(variable)
    if text is None:
        raise UsageError(f"no --config FILE, and no {variable} in the environment")
    return parse_json_object(text, variable)


if __name__ == "__main__":
    assert __debug__, "assertions guard what the node promises: do not switch them off"
    sys.exit(main())
