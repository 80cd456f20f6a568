"""Acks of the services: all of them, in order, at the position that is waited for."""

import pytest

from upheaval_node.cluster.service_acks import ServiceAcks
from upheaval_node.errors import ContradictionError, PeerError
from upheaval_node.protocol import cluster_messages as cm


def ack(ack_id: int, position: int, service_id: int = 0, relevant_id: int = -1) -> cm.ServiceAck:
    return cm.ServiceAck(position, 0, ack_id, relevant_id, service_id)


def test_all_services_must_have_acked() -> None:
    acks = ServiceAcks(2)
    assert not acks.has_reached(0)
    acks.on_ack(ack(0, 0, 1, relevant_id=11))
    assert not acks.has_reached(0)
    acks.on_ack(ack(0, 0, 0, relevant_id=10))
    assert acks.has_reached(0)
    assert [each.relevant_id for each in acks.take()] == [10, 11]
    assert acks.ack_id == 1
    assert not acks.has_reached(0)


def test_acks_may_come_before_somebody_waits_for_them() -> None:
    acks = ServiceAcks(1)
    acks.on_ack(ack(0, 0))
    acks.on_ack(ack(1, 96))
    assert acks.has_reached(0)
    acks.take()
    assert acks.has_reached(96)


@pytest.mark.parametrize("wrong", [ack(1, 0), ack(0, 32)])
def test_an_ack_out_of_sequence_ends_the_member(wrong: cm.ServiceAck) -> None:
    acks = ServiceAcks(1)
    acks.on_ack(wrong)
    with pytest.raises(ContradictionError, match="ack out of sequence"):
        acks.has_reached(0)


def test_a_second_first_ack_is_somebody_elses() -> None:
    acks = ServiceAcks(1)
    acks.on_ack(ack(0, 0, relevant_id=5))
    acks.take()
    acks.client_ids[0] = 5
    with pytest.raises(PeerError, match="possible duplicate serviceId"):
        acks.on_ack(ack(0, 0, relevant_id=6))


@pytest.mark.parametrize("service_id", [-1, 1, 99])
def test_services_that_do_not_exist_cannot_ack(service_id: int) -> None:
    with pytest.raises(PeerError):
        ServiceAcks(1).on_ack(ack(0, 0, service_id))
