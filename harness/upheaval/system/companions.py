"""What a companion *is*: its ports, how it is configured, started and asked, in processes and in containers.

Runtimes know companions only through this, as they know members through `under_test`. It starts nothing.
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
"""Where one in a container listens: consensus, catch-up, archive."""
METRICS_PORT_IN_CONTAINER: Final = 9006


@dataclass(frozen=True, slots=True)
class CompanionPlan:
    """One companion of a cluster, as a runtime wants it.

    `members` are the consensus endpoints of the cluster's members; `endpoints` are its own: consensus, catch-up,
    archive. `tls` are the files of its certificate, empty without TLS; `credentials_file` holds its principal and
    secret, empty for none.
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
    """What a runtime has to know of those of a system."""

    def check(self, config: CompanionConfig, runtime: str) -> None:
        """Raises `UsageError` for what there is none of, there."""

    @property
    def configuration_file(self) -> str:
        """The name of the configuration of one, in its folder."""

    @property
    def health_command(self) -> Sequence[str]:
        """A command inside a container: exit status 0 for one that is well; with `--json` it says all that it knows."""

    def configuration_text(self, plan: CompanionPlan) -> str:
        """What its configuration holds."""

    def command(self, config: CompanionConfig, configuration: Path) -> Sequence[str]:
        """What runs it on this machine."""

    def environment(self, plan: CompanionPlan) -> Mapping[str, str]:
        """How it is configured in a container."""

    def arguments(self, plan: CompanionPlan) -> Sequence[str]:
        """What the image's entry point receives."""

    def status_in_folder(self, name: str, folder: Path, pid: int | None) -> CompanionStatus:
        """Of one whose files are on this machine; `pid` None: it does not run."""


class NodeCompanions:
    """Those of our node. Implements `Companions`."""

    configuration_file = "config.json"
    health_command: Sequence[str] = ("python3", "-m", backup_health.__name__)

    def check(self, config: CompanionConfig, runtime: str) -> None:
        """There are all kinds, everywhere."""

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
        """As JSON."""
        return jsonfields.to_json(self.configuration(plan)) + "\n"

    def command(self, config: CompanionConfig, configuration: Path) -> Sequence[str]:
        """The node's own program for its kind."""
        return [sys.executable, "-P", "-m", f"upheaval_node.runtime.{config.kind}", "--config", str(configuration)]

    def environment(self, plan: CompanionPlan) -> Mapping[str, str]:
        """The configuration, in the variable of its kind, and the run."""
        variable = f"UPHEAVAL_{plan.config.kind.upper()}_CONFIG"
        return {variable: json.dumps(self.configuration(plan)), "UPHEAVAL_RUN_ID": plan.spec.run_id}

    def arguments(self, plan: CompanionPlan) -> Sequence[str]:
        """Its kind."""
        return (plan.config.kind,)

    def status_in_folder(self, name: str, folder: Path, pid: int | None) -> CompanionStatus:
        """From the counters and the recording log there."""
        return status_in_folder(name, folder, pid)
