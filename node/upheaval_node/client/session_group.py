"""`SessionGroup`: many sessions of one process that share one stream to each member and one stream back.

A single session costs two streams to every member and a connection for each. In a group all sessions share one set, as
do the clients of one media driver that use the same channels (Aeron: publications are shared by channel and stream id,
an egress subscription is shared by filtering). A message from the cluster goes to its session by session id, and before
there is one by the correlation id of the request. Only sessions that have a message or a passed deadline get a turn, so
that silent sessions cost nothing. Handlers that leave too many messages delay the other sessions. This module knows no
socket and reads no clock.
"""

from collections import deque
from collections.abc import Mapping
from heapq import heappop, heappush
from random import Random
from struct import Struct
from typing import Final

from upheaval_node.client.connect import MESSAGE_TIMEOUT_NS, RETRY_INTERVAL_NS, response_channel
from upheaval_node.client.session import KEEP_ALIVE_INTERVAL_NS, ClusterClient, EgressListener, MessageHandler
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.errors import PeerError, UsageError
from upheaval_node.media.api import Abort, Break, Media, Message, MessageHandler as FragmentHandler
from upheaval_node.media.shared_publications import SharedPublication, SharedPublications
from upheaval_node.protocol import cluster_messages as cm, session_header
from upheaval_node.protocol.constants import EGRESS_STREAM_ID
from upheaval_node.protocol.session_header import ANY_VERSION_MASK, ANY_VERSION_WORD
from upheaval_node.types import NEVER_NS, NOT_YET, NULL_VALUE, Now

POLL_LIMIT: Final = 1000
"""The most fragments that are read in one turn."""

MAX_OPENING: Final = 50
"""The most sessions that connect at the same time, below the number of clients that a follower redirects at once."""

MAX_KEPT_LENGTH: Final = 4 * 1024 * 1024
"""The most bytes of untaken messages. Beyond that, nothing is read for any session."""

_HEADER: Final = Struct("<qqqq")


class _Seat:
    """One session's share of the streams. Implements `ports.ClientMedia` and `ports.EgressSubscription`."""

    def __init__(self, group: "SessionGroup", number: int, handler: MessageHandler) -> None:
        self.number = number
        self.handler = handler
        self.client: ClusterClient
        self.kept: deque[Message] = deque()
        self.request_id = NULL_VALUE
        self.session_id = NULL_VALUE
        self.deadline_ns = NEVER_NS
        self._group = group

    def next_correlation_id(self) -> int:
        """An id for the next request. From now on only this request is answered; a late answer to the previous one is
        dropped.
        """
        return self._group.begin_request(self)

    def add_publication(self, channel: str, stream_id: int) -> SharedPublication:
        """The group's stream to a member. Raises `UsageError` for an unusable channel."""
        return self._group.publications.add_publication(channel, stream_id)

    def add_subscription(self, channel: str, stream_id: int) -> "_Seat":  # noqa: ARG002 - those of the group
        """The group's egress, reduced to the messages of this session."""
        return self

    @property
    def resolved_endpoint(self) -> str | None:
        """The address at which the group's egress is bound."""
        return self._group.egress.resolved_endpoint

    @property
    def error(self) -> str | None:
        """Why the group's egress is not bound."""
        return self._group.egress.error

    def poll(self, handler: FragmentHandler, fragment_limit: int) -> int:
        """Deliver the messages kept for this session."""
        count = 0
        while self.kept and count < fragment_limit:
            message = self.kept.popleft()
            self._group.kept_length -= len(message.payload)
            try:
                handler(message)
            except Abort:
                self.kept.appendleft(message)
                self._group.kept_length += len(message.payload)
                break
            except Break:
                count += 1
                break
            count += 1
        return count

    def close(self) -> None:
        """Leave the group: the session has ended."""
        self._group.forget(self)


class SessionGroup:
    """The sessions of a process. Implements `ports.Agent`; its owner runs it after the media.

    The arguments are those of `ClusterClient`.
    """

    def __init__(
        self,
        media: Media,
        ingress_endpoints: Mapping[int, str] | str,
        *,
        random: Random,
        egress_channel: str | None = None,
        egress_stream_id: int = EGRESS_STREAM_ID,
        message_timeout_ns: int = MESSAGE_TIMEOUT_NS,
        new_leader_timeout_ns: int | None = None,
        keep_alive_interval_ns: int | None = KEEP_ALIVE_INTERVAL_NS,
        max_kept_length: int = MAX_KEPT_LENGTH,
    ) -> None:
        self.peer_errors = 0
        self.kept_length = 0
        self.publications = SharedPublications(media)
        self._endpoints = ingress_endpoints
        self._random = random
        self._egress_channel = egress_channel or response_channel(random)
        self._egress_stream_id = egress_stream_id
        self._message_timeout_ns = message_timeout_ns
        self._new_leader_timeout_ns = new_leader_timeout_ns
        self._keep_alive_interval_ns = keep_alive_interval_ns
        self._max_kept_length = max_kept_length
        self.egress = media.add_subscription(self._egress_channel, egress_stream_id)
        self._media = media
        self._now = NOT_YET
        self._opened = 0
        self._leader: int | None = None
        # Sessions that wait for their turn to connect, sessions that connect, and all sessions that have begun to.
        self._unopened: deque[_Seat] = deque()
        self._opening: dict[int, _Seat] = {}
        self._seats: dict[int, _Seat] = {}
        self._by_request: dict[int, _Seat] = {}
        self._by_session: dict[int, _Seat] = {}
        # Sessions that get a turn at once, and the deadlines of the others. Of several deadlines of one session the
        # last one set counts.
        self._ready: dict[int, _Seat] = {}
        self._deadlines: list[tuple[int, int]] = []
        # Sessions whose keep-alive was not taken. They come before sessions that would fill the stream again.
        self._owing: dict[int, _Seat] = {}
        self._seen: tuple[object, ...] = ()

    def __len__(self) -> int:
        """The number of sessions that have not ended, connected or not."""
        return len(self._seats) + sum(not seat.client.is_closed for seat in self._unopened)

    def open(
        self,
        handler: MessageHandler,
        *,
        credentials: CredentialsSupplier | None = None,
        listener: EgressListener | None = None,
        client_name: str = "",
    ) -> ClusterClient:
        """Begin a session. The group runs and polls it, and `handler` gets its messages; the owner offers and closes.

        Raises `UsageError` when the group is closed.
        """
        if self.egress.is_closed:
            raise UsageError("the group is closed")
        self._opened += 1
        seat = _Seat(self, self._opened, handler)
        seat.client = ClusterClient(
            seat,
            self._endpoints,
            random=self._random,
            egress_channel=self._egress_channel,
            egress_stream_id=self._egress_stream_id,
            credentials=credentials,
            listener=listener,
            message_timeout_ns=self._message_timeout_ns,
            new_leader_timeout_ns=self._new_leader_timeout_ns,
            keep_alive_interval_ns=self._keep_alive_interval_ns,
            client_name=client_name,
            first_choice=lambda: self._leader,
        )
        self._unopened.append(seat)
        return seat.client

    def close(self) -> None:
        """End every session."""
        for seat in [*self._seats.values(), *self._unopened]:
            seat.client.close()
        self._seats.clear()
        self._unopened.clear()
        self._ready.clear()
        self._owing.clear()
        self.egress.close()

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Distribute the messages, and give a turn to each session with messages or a passed deadline."""
        self._now = now
        work = 0
        if self.kept_length < self._max_kept_length and not self.egress.is_closed:
            work += self.egress.poll(self._on_message, POLL_LIMIT)
        for seat in list(self._owing.values()):
            work += self._turn(seat, now)
            if seat.number in self._owing:
                break
        self._ready = self._take_ready(now)
        for number in list(self._ready):
            # An error of a handler ends this turn. The sessions that were due get their turn in the next one.
            ready = self._ready.get(number)
            if ready is not None:
                work += self._turn(ready, now)
        return work

    def next_deadline_ns(self) -> int:
        """Now if a session has something to do, else the first deadline of all sessions."""
        if self._ready or (self._unopened and len(self._opening) < MAX_OPENING):
            return self._now.ns
        return self._deadlines[0][0] if self._deadlines else NEVER_NS

    def _take_ready(self, now: Now) -> dict[int, _Seat]:
        while self._unopened and len(self._opening) < MAX_OPENING:
            seat = self._unopened.popleft()
            self._seats[seat.number] = self._opening[seat.number] = self._ready[seat.number] = seat
        ready = self._ready
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now.ns:
            deadline_ns, number = heappop(deadlines)
            due = self._seats.get(number)
            if due is not None and due.deadline_ns == deadline_ns:
                due.deadline_ns = NEVER_NS
                ready[number] = due
        # Every session has to look at a connection that was opened or lost.
        egress = self.egress
        seen = (
            self.publications.connected,
            *(image.correlation_id for image in egress.images),
            egress.resolved_endpoint,
        )
        if seen != self._seen:
            self._seen = seen
            return dict(self._seats)
        return ready

    def _turn(self, seat: _Seat, now: Now) -> int:
        client = seat.client
        work = client.do_work(now) + client.poll(seat.handler, POLL_LIMIT)
        if client.is_closed:
            self.forget(seat)
            return work
        if client.is_connected:
            self._leader = client.leader_member_id
            self._opening.pop(seat.number, None)
        for table, is_in in ((self._ready, work > 0), (self._owing, client.owes_keep_alive)):
            if is_in:
                table[seat.number] = seat
            else:
                table.pop(seat.number, None)
        deadline_ns = client.next_deadline_ns()
        if seat.kept:
            deadline_ns = min(deadline_ns, now.ns + RETRY_INTERVAL_NS)
        if deadline_ns != seat.deadline_ns:
            seat.deadline_ns = deadline_ns
            if deadline_ns < NEVER_NS:
                heappush(self._deadlines, (deadline_ns, seat.number))
        return work

    # --- what comes back ---

    def _on_message(self, message: Message) -> None:
        payload = message.payload
        seat: _Seat | None
        if len(payload) >= session_header.LENGTH:
            word, _, session_id, _ = _HEADER.unpack_from(payload)
            if word & ANY_VERSION_MASK == ANY_VERSION_WORD:
                seat = self._by_session.get(session_id)
                if seat is not None:
                    self._keep(seat, message)
                return
        try:
            seat = self._seat_of(cm.SCHEMA.decode(payload))
        except PeerError as error:
            self.peer_errors += 1
            message.image.reject(str(error))
            return
        if seat is not None:
            self._keep(seat, message)

    def _keep(self, seat: _Seat, message: Message) -> None:
        # A copy, so that a kept message does not keep the block that it came in.
        payload = bytes(message.payload)
        seat.kept.append(Message(payload, message.position, message.reserved_value, message.image))
        self.kept_length += len(payload)
        self._ready[seat.number] = seat
        if self.kept_length >= self._max_kept_length:
            raise Break

    def _seat_of(self, event: object) -> _Seat | None:
        match event:
            case cm.SessionEvent():
                # By the request: a leader that died may have assigned a session id that no other member knows.
                seat = self._by_request.get(event.correlation_id)
                is_opened = event.code == cm.EventCode.OK and event.cluster_session_id >= 0
                if seat is not None and is_opened and seat.session_id == NULL_VALUE:
                    seat.session_id = event.cluster_session_id
                    self._by_session[seat.session_id] = seat
                return seat
            case cm.Challenge():
                return self._by_request.get(event.correlation_id)
            case cm.NewLeaderEvent() | cm.AdminResponse() | cm.SessionMessageHeader():
                return self._by_session.get(event.cluster_session_id)
            case _:
                return None

    # --- for the seats ---

    def begin_request(self, seat: _Seat) -> int:
        """An id for the session's next request."""
        self._by_request.pop(seat.request_id, None)
        seat.request_id = self._media.next_correlation_id()
        self._by_request[seat.request_id] = seat
        return seat.request_id

    def forget(self, seat: _Seat) -> None:
        """Forget a session that has ended."""
        self._seats.pop(seat.number, None)
        self._ready.pop(seat.number, None)
        self._opening.pop(seat.number, None)
        self._owing.pop(seat.number, None)
        self._by_request.pop(seat.request_id, None)
        if self._by_session.get(seat.session_id) is seat:
            del self._by_session[seat.session_id]
        self.kept_length -= sum(len(message.payload) for message in seat.kept)
        seat.kept.clear()
