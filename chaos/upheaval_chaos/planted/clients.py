"""Planted bugs of what clients hear: redirects, new leaders, and the answers of services."""

from collections.abc import Callable
from itertools import count
from typing import Final

from upheaval_chaos.planted.bug import Area
from upheaval_chaos.planted.changes import replace_method, replacing
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.session import ClusterSession
from upheaval_node.media.shared_publications import SharedPublication
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.api import ClientSession
from upheaval_node.service.container import ServiceContainer
from upheaval_node.types import MemberId, Now, TermId

AREA: Final[Area] = Area("clients")
EVERY: Final = 40
"""A bug that shows at once in everything would be no test of anything."""

Offer = Callable[..., int]


@AREA.bug("sessions-outlive-leaders")
def new_leader_says_nothing(module: ConsensusModule) -> None:
    """Clients do not hear of a new leader."""
    egress = module._state.sessions._egress
    replace_method(egress, "send_new_leader", lambda session, term_id, leader_id: True)  # noqa: ARG005


@AREA.bug("sessions-outlive-leaders", "clients-in-time")
def new_leader_misnamed(module: ConsensusModule) -> None:
    """A new leader names another member as the leader to its clients."""
    egress, members = module._state.sessions._egress, len(module.members)
    send = egress.send_new_leader

    @replacing(egress, "send_new_leader")
    def send_another(session: ClusterSession, term_id: TermId, leader_id: MemberId) -> bool:
        return send(session, term_id, MemberId((leader_id + 1) % members))


@AREA.bug("clients-in-time", "progress")
def redirect_missing(module: ConsensusModule) -> None:
    """A follower does not answer a client that wants a session."""

    @replacing(module._state.sessions, "_redirect")
    def say_nothing(now: Now, request: cm.SessionConnectRequest) -> None:
        """In place of the redirect."""


@AREA.bug("clients-in-time", "progress")
def redirect_to_itself(module: ConsensusModule) -> None:
    """A follower names itself as the leader to a client that wants a session."""
    sessions = module._state.sessions
    send = sessions._egress.send_event

    @replacing(sessions._egress, "send_event")
    def send_own(
        session: ClusterSession, term_id: TermId, leader_id: MemberId, code: cm.EventCode, detail: str
    ) -> bool:
        is_redirect = code is cm.EventCode.REDIRECT
        return send(session, term_id, module._context.member_id if is_redirect else leader_id, code, detail)


@AREA.bug("linearizable", "applied-once", "states-agree", "snapshot-is-replay")
def message_delivered_twice(container: ServiceContainer) -> None:
    """Some messages reach the service of a member twice."""
    deliver, numbers = container._log._on_message, count(1)

    def on_message(session: ClientSession | None, timestamp: int, payload: Buffer, position: int) -> None:
        deliver(session, timestamp, payload, position)  # type: ignore[arg-type]
        if next(numbers) % EVERY == 0:
            deliver(session, timestamp, payload, position)  # type: ignore[arg-type]

    container._log._on_message = on_message


@AREA.bug("answered-once")
def answer_sent_twice(container: ServiceContainer) -> None:
    """A client receives some answers twice."""

    def twice(offer: Offer) -> Offer:
        numbers = count(1)

        def offer_again(*parts: Buffer) -> int:
            result = offer(*parts)
            return offer(*parts) if result > 0 and next(numbers) % EVERY == 0 else result

        return offer_again

    _change_answers(container, twice)


@AREA.bug("answers-in-order")
def answer_overtaken(container: ServiceContainer) -> None:
    """A client receives some answers after the one that follows."""

    def overtaken(offer: Offer) -> Offer:
        late: list[bytes] = []
        numbers = count(1)

        def offer_late(*parts: Buffer) -> int:
            if next(numbers) % EVERY == 0 and not late:
                late.append(b"".join(parts))
                return 1
            result = offer(*parts)
            if result > 0 and late and offer(late[0]) > 0:
                late.clear()
            return result

        return offer_late

    _change_answers(container, overtaken)


@AREA.bug("answered-once")
def answer_lost(container: ServiceContainer) -> None:
    """A client does not receive some answers."""

    def lossy(offer: Offer) -> Offer:
        numbers = count(1)

        def offer_most(*parts: Buffer) -> int:
            return offer(*parts) if next(numbers) % EVERY else 1

        return offer_most

    _change_answers(container, lossy)


def _change_answers(container: ServiceContainer, change: Callable[[Offer], Offer]) -> None:
    """Change how each session of a service sends."""
    publications = container._entries._publications
    add = publications.add_publication

    @replacing(publications, "add_publication")
    def add_changed(channel: str, stream_id: int) -> SharedPublication:
        publication = add(channel, stream_id)
        replace_method(publication, "offer", change(publication.offer))
        return publication
