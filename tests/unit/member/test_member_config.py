"""The configuration of a member: what a JSON object may state, and the error for each wrong one."""

import pytest

from upheaval_node.errors import UsageError
from upheaval_node.member_config import config_from_fields
from upheaval_node.types import MS, S

MEMBERS = "0,a:1,a:2,a:3,a:4,a:5|1,b:1,b:2,b:3,b:4,b:5"
LEAST: dict[str, object] = {"member_id": 1, "members": MEMBERS, "folder": "member-1"}


def test_the_least_configuration_has_the_defaults() -> None:
    config = config_from_fields(LEAST)
    assert config.services == ("echo",)
    assert config.settings.profile == "aeron"
    assert config.endpoints.archive == "b:5"
    assert config.seed is None
    assert config.metrics_address is None


def test_every_field_reaches_its_place() -> None:
    config = config_from_fields(
        LEAST
        | {
            "service": ["echo", "register"],
            "profile": "test",
            "sync_level": 2,
            "cluster_id": 7,
            "appointed_leader": 1,
            "names": {"a:2": "127.0.0.1:9"},
            "run_id": "r",
            "trace": "t.jsonl",
            "seed": 42,
            "python_path": ["."],
            "metrics_port": 9006,
            "metrics_host": "::1",
            "settings": {"cluster": {"timeouts": {"election_ns": 3 * S}}, "media": {"mtu": 8192}},
        }
    )
    assert config.services == ("echo", "register")
    cluster = config.settings.cluster
    assert (cluster.service_count, cluster.cluster_id, cluster.appointed_leader_id) == (2, 7, 1)
    assert cluster.timeouts.election_ns == 3 * S
    assert cluster.timeouts.leader_heartbeat_interval_ns == 50 * MS, "what is not named keeps the profile's value"
    assert (config.settings.media.mtu, config.settings.archive.file_sync_level) == (8192, 2)
    assert (config.names, config.run_id, config.trace) == ({"a:2": "127.0.0.1:9"}, "r", "t.jsonl")
    assert (config.seed, config.python_path) == (42, (".",))
    assert config.metrics_address == "[::1]:9006"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"member_id": 5}, "member id 5 is not among the members"),
        ({"member_id": "1"}, "member_id must be an integer"),
        ({"member_id": True}, "member_id must be an integer"),
        ({"members": None}, "members is missing"),
        ({"members": "0,a"}, "needs id and five to seven endpoints"),
        ({"folder": 3}, "folder must be a text"),
        ({"service": [1]}, "service must be a list of texts"),
        ({"service": []}, "0 services named"),
        ({"profile": "fast"}, "unknown profile 'fast'"),
        ({"sync_level": 3}, "sync level must be 0, 1 or 2"),
        ({"names": ["a"]}, "names must be an object"),
        ({"names": {"a": 1}}, "names.a must be a text"),
        ({"settings": {"media": {"speed": 1}}}, "settings.media.speed is not a setting"),
        ({"settings": {"cluster": {"max_session": 1}}}, "; did you mean 'max_sessions'?"),
        ({"settings": {"media": {"mtu": "big"}}}, "settings.media.mtu must be of type int"),
        ({"settings": {"media": 1}}, "settings.media must be an object"),
        ({"settings": {"cluster": {"timeouts": {"startup_canvass_ns": S}}}}, "startup canvass"),
        ({"metrics_port": 65536}, "metrics_port must be 0 (off) to 65535"),
        ({"metrics_port": 3}, "metrics_port 3 is the port of another endpoint"),
        ({"sync_levle": 1}, "unknown field 'sync_levle'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        config_from_fields(LEAST | change)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
