"""From whom a backup takes, and what it takes for an answer of a member."""

import pytest

from upheaval_node.backup.config import SourceType
from upheaval_node.backup.offer import is_acceptable, offer_of
from upheaval_node.errors import PeerError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import with_values

MEMBERS = "0,h:1,h:2,h:3,h:4,h:5|7,i:1,i:2,i:3,i:4,i:5"


def snapshot(service_id: int, recording_id: int = 3, **changes: int) -> cm.BackupResponseSnapshot:
    return with_values(cm.BackupResponseSnapshot(recording_id, 2, 64, 128, 1000, service_id), **changes)


GOOD = cm.BackupResponse(
    correlation_id=1,
    log_recording_id=0,
    log_leadership_term_id=2,
    log_term_base_log_position=64,
    last_leadership_term_id=2,
    last_term_base_log_position=64,
    commit_position_counter_id=4,
    leader_member_id=0,
    member_id=7,
    snapshots=(snapshot(0), snapshot(-1, 5)),
    cluster_members=MEMBERS,
)


@pytest.mark.parity("LV-01")
def test_source_leader_takes_the_leader_only() -> None:
    assert is_acceptable(SourceType.LEADER, 2, 2)
    assert not is_acceptable(SourceType.LEADER, 2, 1)
    assert not is_acceptable(SourceType.LEADER, -1, 1)
    assert not is_acceptable(SourceType.LEADER, -1, -1)


@pytest.mark.parity("LV-02")
def test_source_follower_takes_who_does_not_lead() -> None:
    assert not is_acceptable(SourceType.FOLLOWER, 2, 2)
    assert is_acceptable(SourceType.FOLLOWER, 2, 1)
    assert is_acceptable(SourceType.FOLLOWER, -1, 1)


@pytest.mark.parity("LV-03")
def test_source_any_takes_everyone() -> None:
    assert all(is_acceptable(SourceType.ANY, leader, 1) for leader in (-1, 1, 2))


def test_an_answer_names_its_member_and_what_it_has() -> None:
    offer = offer_of(GOOD)
    assert (offer.supplier.id, offer.supplier.endpoints.archive) == (7, "i:5")
    assert (offer.leader_member_id, offer.log_recording_id, offer.commit_position_counter_id) == (0, 0, 4)
    assert (offer.log_leadership_term_id, offer.log_term_base_log_position) == (2, 64)
    assert offer.snapshots == GOOD.snapshots


@pytest.mark.parametrize(
    "changes",
    [
        {"member_id": 3},
        {"member_id": cm.BackupResponse().member_id},
        {"cluster_members": ""},
        {"cluster_members": "7,x"},
        {"log_recording_id": -1},
        {"log_leadership_term_id": -1},
        {"log_term_base_log_position": -32},
        {"log_term_base_log_position": 33},
        {"commit_position_counter_id": -1},
        {"snapshots": (snapshot(0),)},
        {"snapshots": (snapshot(-1), snapshot(-1))},
        {"snapshots": (snapshot(1), snapshot(-1))},
        {"snapshots": (snapshot(0), snapshot(-1, log_position=160))},
        {"snapshots": (snapshot(0, -1), snapshot(-1))},
        {"snapshots": (snapshot(-1, log_position=32),)},
        {"snapshots": (snapshot(-1, leadership_term_id=-1),)},
        {"snapshots": tuple(snapshot(service_id) for service_id in range(-1, 200))},
    ],
)
def test_what_no_member_would_answer_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(PeerError, match="backup response"):
        offer_of(with_values(GOOD, **changes))  # type: ignore[arg-type]
