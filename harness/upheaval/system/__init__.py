"""What a member is, to whoever runs it: programs, files, ports, statuses, orders.

One system under test is one object of `under_test`; nothing else in the harness knows what a member is made of.
"""

from upheaval.system.cluster_spec import CLUSTER_OF_THREE, ClusterSpec
from upheaval.system.companion_status import companion_from_counters, status_from_text, status_in_folder
from upheaval.system.member_control import ControlStatus, give_order, read_control
from upheaval.system.member_status import log_recording_id, member_pids, status_from_counters, with_leaders
from upheaval.system.status import (
    COMPONENTS,
    ELECTION_CLOSED,
    LEADER,
    Cluster,
    Member,
    MemberStatus,
    is_caught_up,
    serving_leader,
    shown,
)
from upheaval.system.under_test import (
    SOURCE_FOLDER,
    SYSTEM,
    MemberPlan,
    SystemUnderTest,
    UpheavalNode,
    port_in_container,
)

__all__ = [
    "CLUSTER_OF_THREE",
    "COMPONENTS",
    "ELECTION_CLOSED",
    "LEADER",
    "SOURCE_FOLDER",
    "SYSTEM",
    "Cluster",
    "ClusterSpec",
    "ControlStatus",
    "Member",
    "MemberPlan",
    "MemberStatus",
    "SystemUnderTest",
    "UpheavalNode",
    "companion_from_counters",
    "give_order",
    "is_caught_up",
    "log_recording_id",
    "member_pids",
    "port_in_container",
    "read_control",
    "serving_leader",
    "shown",
    "status_from_counters",
    "status_from_text",
    "status_in_folder",
    "with_leaders",
]
