"""The hotel on a cluster. Requests and answers are messages of `protocol.xml`."""

from itertools import count

import pytest

RETRIES = 20


class Desk:
    """Asks until there is an answer: booking twice by one request is booking once."""

    def __init__(self, cluster):
        self.client, self.schema = cluster.client(timeout_s=5), cluster.schema
        self.ids = count(1)

    def book(self, room, guest):
        request = self.schema.Book(requestId=next(self.ids), room=room, guest=guest)
        return self.client.request(request, retries=RETRIES)

    def leave(self, booking):
        return self.client.request(self.schema.Leave(requestId=next(self.ids), booking=booking), retries=RETRIES)

    def guests(self):
        answer = self.client.request(self.schema.ListGuests(requestId=next(self.ids)), retries=RETRIES)
        return {each.room: each.guest for each in answer.rooms}

    def work(self, rooms):
        """A guest stays, a second one finds the room taken, a third one leaves again."""
        for room in rooms:
            self.book(room, "ann")
            self.book(room, "bob")
            third = self.book(1000 + room, "carl")
            self.leave(third.booking)


@pytest.fixture
def desk(cluster):
    return Desk(cluster)


def test_guests_keep_their_rooms_whoever_leads(cluster, chaos, desk):
    desk.work(range(20))
    killed = chaos.kill_leader()
    desk.work(range(20, 40))
    assert cluster.leader() != killed
    assert desk.guests()[3] == "ann"
    cluster.assert_valid()


def test_the_hotel_outlives_a_restart_from_a_snapshot(cluster, desk):
    desk.work(range(20))
    cluster.restart_from_snapshot(timeout_s=120)
    desk.work(range(20, 40))
    assert desk.guests() == dict.fromkeys(range(40), "ann")
    cluster.assert_valid()
