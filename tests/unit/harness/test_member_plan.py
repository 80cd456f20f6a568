"""What a runtime writes down for a member from the spec of its cluster."""

from typing import Any

import pytest

from upheaval.system import ClusterSpec, MemberPlan, system_named
from upheaval_node.member_config import config_from_fields
from upheaval_node.settings import MediaSettings

ENDPOINTS = [[f"127.0.0.1:{20_000 + 10 * member + port}" for port in range(5)] for member in range(3)]


def written(spec: ClusterSpec) -> Any:
    plan = MemberPlan(spec, 0, ENDPOINTS, "127.0.0.1:20005", "/somewhere/member-0")
    return config_from_fields(system_named(spec.system).configuration(plan)).settings


@pytest.mark.parametrize("sessions", [0, 300, 400, 2000])
def test_a_member_takes_the_connections_of_all_its_sessions(sessions: int) -> None:
    settings = written(ClusterSpec(members=3, max_sessions=sessions))
    if sessions:
        assert settings.cluster.max_sessions == sessions
    usual = MediaSettings()
    assert settings.media.max_connections == max(usual.max_connections, 4000 if sessions == 2000 else 0)
    assert settings.media.max_connections_of_peer == max(usual.max_connections_of_peer, 2 * sessions)
