"""What people import and run."""

from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cluster import Cluster, Member, MemberStatus
from upheaval.errors import HarnessError
from upheaval.run_folder import RunFolder
from upheaval_node.service.api import ClusteredService

__all__ = [
    "Cluster",
    "ClusteredService",
    "Finding",
    "HarnessError",
    "Member",
    "MemberStatus",
    "Report",
    "RunFolder",
    "Verdict",
    "verify_run",
]
