"""What people import and run.

Names are imported when they are first asked for, so that the pytest plugin costs nothing where it is not used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from upheaval.accepts import CorrelationAt, TemplateId
    from upheaval.checkers.judge import verify_run
    from upheaval.checkers.verdict import Finding, Report, Verdict
    from upheaval.errors import EnvironmentFault, HarnessError, UnknownOutcome, UsageError
    from upheaval.load.users import ClusterUser as ClusterUser  # needs locust, therefore not in __all__
    from upheaval.model import Model, OwnRun, Request, promise
    from upheaval.records import RunFolder
    from upheaval.system import MemberStatus
    from upheaval.testing.calls import Client
    from upheaval.testing.chaos import ActiveFault, Chaos
    from upheaval.testing.cluster import Cluster, Workload
    from upheaval.testing.machine import ClusterMachine as ClusterMachine  # needs hypothesis, as above
    from upheaval_node.client.driver import NotSent, OutcomeUnknown
    from upheaval_node.sbe import SbeError, SbeMessage, SbeSchema, load_schema
    from upheaval_node.service.api import ClusteredService

__all__ = [
    "ActiveFault",
    "Chaos",
    "Client",
    "Cluster",
    "ClusteredService",
    "CorrelationAt",
    "EnvironmentFault",
    "Finding",
    "HarnessError",
    "MemberStatus",
    "Model",
    "NotSent",
    "OutcomeUnknown",
    "OwnRun",
    "Report",
    "Request",
    "RunFolder",
    "SbeError",
    "SbeMessage",
    "SbeSchema",
    "TemplateId",
    "UnknownOutcome",
    "UsageError",
    "Verdict",
    "Workload",
    "load_schema",
    "promise",
    "verify_run",
]

_MODULES = {
    "ActiveFault": "upheaval.testing.chaos",
    "Chaos": "upheaval.testing.chaos",
    "Client": "upheaval.testing.calls",
    "Cluster": "upheaval.testing.cluster",
    "ClusterMachine": "upheaval.testing.machine",
    "ClusterUser": "upheaval.load.users",
    "ClusteredService": "upheaval_node.service.api",
    "CorrelationAt": "upheaval.accepts",
    "EnvironmentFault": "upheaval.errors",
    "Finding": "upheaval.checkers.verdict",
    "HarnessError": "upheaval.errors",
    "MemberStatus": "upheaval.system",
    "Model": "upheaval.model",
    "NotSent": "upheaval_node.client.driver",
    "OutcomeUnknown": "upheaval_node.client.driver",
    "OwnRun": "upheaval.model",
    "Report": "upheaval.checkers.verdict",
    "Request": "upheaval.model",
    "RunFolder": "upheaval.records.run_folder",
    "SbeError": "upheaval_node.sbe",
    "SbeMessage": "upheaval_node.sbe",
    "SbeSchema": "upheaval_node.sbe",
    "TemplateId": "upheaval.accepts",
    "UnknownOutcome": "upheaval.errors",
    "UsageError": "upheaval.errors",
    "Verdict": "upheaval.checkers.verdict",
    "Workload": "upheaval.testing.cluster",
    "load_schema": "upheaval_node.sbe",
    "promise": "upheaval.model",
    "verify_run": "upheaval.checkers.judge",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
