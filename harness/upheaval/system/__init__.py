"""What the harness knows about a member: its programs, files, ports, statuses, commands.

Each system under test is one object of `under_test`; the rest of the harness does not know how members are made.
"""

from upheaval.system.aeron import AERON as AERON
from upheaval.system.aeron_files import DRIVER_IN_VOLUME as DRIVER_IN_VOLUME
from upheaval.system.clients import (
    ClientNeeds as ClientNeeds,
    Clients as Clients,
    WaitingClient as WaitingClient,
    WaitingClients as WaitingClients,
    WayIn as WayIn,
)
from upheaval.system.cluster_spec import (
    CLUSTER_OF_THREE as CLUSTER_OF_THREE,
    ClusterSpec as ClusterSpec,
    parse_app_version as parse_app_version,
    require_rules as require_rules,
)
from upheaval.system.companion_status import (
    companion_from_counters as companion_from_counters,
    status_from_text as status_from_text,
)
from upheaval.system.kept_session import KeptSession as KeptSession
from upheaval.system.member_control import (
    ControlStatus as ControlStatus,
    give_command as give_command,
    read_control as read_control,
)
from upheaval.system.member_status import (
    has_live_counters as has_live_counters,
    last_commit_position as last_commit_position,
    log_recording_id as log_recording_id,
    member_pids as member_pids,
    status_from_counters as status_from_counters,
    with_leaders as with_leaders,
)
from upheaval.system.status import (
    COMPONENTS as COMPONENTS,
    ELECTION_CLOSED as ELECTION_CLOSED,
    LEADER as LEADER,
    MemberStatus as MemberStatus,
    is_caught_up as is_caught_up,
    serving_leader as serving_leader,
    shown as shown,
)
from upheaval.system.systems import (
    check_system as check_system,
    in_containers as in_containers,
    system_named as system_named,
)
from upheaval.system.under_test import (
    SOURCE_FOLDER as SOURCE_FOLDER,
    MemberPlan as MemberPlan,
    SystemInContainers as SystemInContainers,
    SystemUnderTest as SystemUnderTest,
    UpheavalNode as UpheavalNode,
    port_in_container as port_in_container,
    require_meaning as require_meaning,
    require_streams as require_streams,
)
