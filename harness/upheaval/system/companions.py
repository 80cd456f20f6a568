"""What the harness knows about a companion: its ports, and how it is configured, started and asked in either runtime.

Runtimes know companions only through this module, as they know members through `under_test`. It starts nothing.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from upheaval.records import STANDBY, CompanionConfig, CompanionStatus, Json, jsonfields
from upheaval.system.cluster_spec import ClusterSpec
from upheaval.system.companion_status import status_in_folder
from upheaval_node.runtime import backup_health

PORTS_IN_CONTAINER: Final = (9002, 9004, 9005)
"""The ports of a companion in a container: consensus, catch-up, archive."""
METRICS_PORT_IN_CONTAINER: Final = 9006


@dataclass(frozen=True, slots=True)
class CompanionPlan:
    """One companion of a cluster, as a runtime wants it.

    `members` are the consensus endpoints of the cluster's members; `endpoints` are its own: consensus, catch-up,
    archive. `tls` are the files of its certificate, empty without TLS; `credentials_file` has its principal and secret,
    empty for none.
    """

    spec: ClusterSpec
    config: CompanionConfig
    members: Sequence[str]
    endpoints: Sequence[str]
    metrics: str
    folder: str
    tls: Mapping[str, str] = field(default_factory=dict)
    credentials_file: str = ""


class Companions(Protocol):
    """What a runtime has to know about a system's companions."""

    def check(self, config: CompanionConfig, runtime: str) -> None:
        """Raises `UsageError` for a companion that does not exist in that runtime."""

    @property
    def configuration_file(self) -> str:
        """The name of the configuration file in a companion's folder."""

    @property
    def health_command(self) -> Sequence[str]:
        """A command inside the container with exit status 0 for a healthy companion. With `--json` it prints its
        status.
        """

    def configuration_text(self, plan: CompanionPlan) -> str:
        """The content of the configuration file."""

    def command(self, config: CompanionConfig, configuration: Path) -> Sequence[str]:
        """The command that runs it on this machine."""

    def environment(self, plan: CompanionPlan) -> Mapping[str, str]:
        """The environment that configures it in a container."""

    def arguments(self, plan: CompanionPlan) -> Sequence[str]:
        """The arguments of the image's entry point."""

    def status_in_folder(self, name: str, folder: Path, pid: int | None) -> CompanionStatus:
        """The status of a companion whose files are on this machine. `pid` None: it does not run."""


class NodeCompanions:
    """The companions of our node. Implements `Companions`."""

    configuration_file = "config.json"
    health_command: Sequence[str] = ("python3", "-m", backup_health.__name__)

    def check(self, config: CompanionConfig, runtime: str) -> None:
        """Accepts every kind in every runtime."""

    def configuration(self, plan: CompanionPlan) -> dict[str, Json]:
        """See `upheaval_node.backup.config`."""
        metrics_host, _, metrics_port = plan.metrics.rpartition(":")
        fields: dict[str, Json] = {
            "name": plan.config.name,
            "folder": plan.folder,
            "cluster_id": 0,
            "consensus_endpoints": list(plan.members),
            "endpoints": dict(zip(("consensus", "catchup", "archive"), plan.endpoints, strict=True)),
            "source": plan.config.source,
            "replay_start": plan.config.replay_start,
            "profile": plan.spec.profile,
            "sync_level": plan.spec.sync_level,
            "run_id": plan.spec.run_id,
            "trace": "trace.jsonl",
            "names": {},
            "tls": dict(plan.tls),
            "credentials_file": plan.credentials_file,
            "metrics_host": metrics_host,
            "metrics_port": int(metrics_port),
        }
        if plan.config.kind == STANDBY:
            fields["service"] = [plan.spec.service, *plan.spec.more_services]
            fields["python_path"] = list(plan.spec.python_path)
        return fields

    def configuration_text(self, plan: CompanionPlan) -> str:
        """The configuration as JSON."""
        return jsonfields.to_json(self.configuration(plan)) + "\n"

    def command(self, config: CompanionConfig, configuration: Path) -> Sequence[str]:
        """The node's own program for its kind."""
        return [sys.executable, "-P", "-m", f"upheaval_node.runtime.{config.kind}", "--config", str(configuration)]

    def environment(self, plan: CompanionPlan) -> Mapping[str, str]:
        """The configuration, in the variable for its kind, and the run."""
        variable = f"UPHEAVAL_{plan.config.kind.upper()}_CONFIG"
        return {variable: json.dumps(self.configuration(plan)), "UPHEAVAL_RUN_ID": plan.spec.run_id}

    def arguments(self, plan: CompanionPlan) -> Sequence[str]:
        """The companion's kind."""
        return (plan.config.kind,)

    def status_in_folder(self, name: str, folder: Path, pid: int | None) -> CompanionStatus:
        """Read the status from the counters and the recording log in the folder."""
        return status_in_folder(name, folder, pid)
