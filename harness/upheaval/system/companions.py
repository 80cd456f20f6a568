"""What a companion *is*: its ports, how it is configured, started and asked, in processes and in containers.

Runtimes know companions only through this, as they know members through `system_under_test`. It starts nothing.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from upheaval.records import STANDBY, CompanionConfig, Json
from upheaval.system.cluster_spec import ClusterSpec
from upheaval_node.runtime import backup_health

PORTS_IN_CONTAINER: Final = (9002, 9004, 9005)
"""Where one in a container listens: consensus, catch-up, archive."""
METRICS_PORT_IN_CONTAINER: Final = 9006
CONFIG_FILE: Final = "config.json"
HEALTH_COMMAND: Final = ("python3", "-m", backup_health.__name__)
"""A command inside a container: exit status 0 for a companion that is well; with `--json` it says all that it knows."""


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


def configuration(plan: CompanionPlan) -> dict[str, Json]:
    """What stands in its configuration file."""
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


def command(config: CompanionConfig, configuration_file: Path) -> Sequence[str]:
    """What runs it on this machine."""
    return [sys.executable, "-P", "-m", f"upheaval_node.runtime.{config.kind}", "--config", str(configuration_file)]


def environment(plan: CompanionPlan) -> Mapping[str, str]:
    """How it is configured in a container."""
    variable = f"UPHEAVAL_{plan.config.kind.upper()}_CONFIG"
    return {variable: json.dumps(configuration(plan)), "UPHEAVAL_RUN_ID": plan.spec.run_id}


def arguments(plan: CompanionPlan) -> Sequence[str]:
    """What the image's entry point is told."""
    return (plan.config.kind,)
