"""A kept session looks at its client as often as it promises, however often it is asked."""

import pytest

from unit.client.answering_member import Member
from upheaval.system import KeptSession
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient, OutcomeUnknown
from upheaval_node.client.operations import read_request
from upheaval_node.types import S


def test_a_session_that_is_asked_more_often_than_it_looks_still_looks(member: Member) -> None:
    heard: list[bytes] = []
    with BlockingClient({0: member.endpoint}) as client:
        kept = KeptSession(client, fresh_s=2)
        kept.open()
        client.on_unasked = lambda message: heard.append(bytes(message))
        kept.goes_on()
        member.holds, client._timeout_ns = True, S // 5
        with pytest.raises(OutcomeUnknown):
            client.request(read_request(1, "k"))
        member.release_reversed()
        wait_until(lambda: (kept.goes_on(), bool(heard))[1], timeout_s=30, describe=lambda: "nothing was heard")
