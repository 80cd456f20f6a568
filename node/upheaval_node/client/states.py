"""The state machines of a cluster client, as data.

Theory of operation. Connecting: dial the ingress endpoints, send SessionConnectRequest to the first connected member,
follow its REDIRECT to the leader, answer a challenge, and finish with SessionEvent OK. Connected: when the ingress or
egress of the leader is lost, the client dials all members it knows and waits for the NewLeaderEvent that a new leader
sends to every open session. Once a message to the new leader is accepted, the client is connected again. If the event
does not come within the new-leader time-out, the session is lost.

Codes of `ConnectState` are Aeron's (AsyncConnect steps); those of `ClientState` are ours, with Aeron's names.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final


class ConnectState(IntEnum):
    """The steps of connecting, with the codes of Aeron's AeronCluster.AsyncConnect.State."""

    CREATE_EGRESS_SUBSCRIPTION = -1
    CREATE_INGRESS_PUBLICATIONS = 0
    AWAIT_PUBLICATION_CONNECTED = 1
    SEND_MESSAGE = 2
    POLL_RESPONSE = 3
    CONCLUDE_CONNECT = 4
    DONE = 5


class ClientState(IntEnum):
    """The state of a session; the codes are ours."""

    CONNECTING = 0
    CONNECTED = 1
    AWAIT_NEW_LEADER = 2
    AWAIT_NEW_LEADER_CONNECTION = 3
    PENDING_CLOSE = 4
    CLOSED = 5


LEGAL_CONNECT_MOVES: Final[Mapping[ConnectState, frozenset[ConnectState]]] = MappingProxyType(
    {
        ConnectState.CREATE_EGRESS_SUBSCRIPTION: frozenset({ConnectState.CREATE_INGRESS_PUBLICATIONS}),
        ConnectState.CREATE_INGRESS_PUBLICATIONS: frozenset({ConnectState.AWAIT_PUBLICATION_CONNECTED}),
        ConnectState.AWAIT_PUBLICATION_CONNECTED: frozenset({ConnectState.SEND_MESSAGE}),
        # The move back to 1 is ours: Aeron's client fails when the member goes away here, ours tries the other members.
        ConnectState.SEND_MESSAGE: frozenset({ConnectState.POLL_RESPONSE, ConnectState.AWAIT_PUBLICATION_CONNECTED}),
        ConnectState.POLL_RESPONSE: frozenset(
            {ConnectState.SEND_MESSAGE, ConnectState.AWAIT_PUBLICATION_CONNECTED, ConnectState.CONCLUDE_CONNECT}
        ),
        ConnectState.CONCLUDE_CONNECT: frozenset({ConnectState.DONE}),
        ConnectState.DONE: frozenset(),
    }
)

LEGAL_MOVES: Final[Mapping[ClientState, frozenset[ClientState]]] = MappingProxyType(
    {
        ClientState.CONNECTING: frozenset({ClientState.CONNECTED, ClientState.CLOSED}),
        ClientState.CONNECTED: frozenset(
            {
                ClientState.AWAIT_NEW_LEADER,
                ClientState.AWAIT_NEW_LEADER_CONNECTION,
                ClientState.PENDING_CLOSE,
                ClientState.CLOSED,
            }
        ),
        ClientState.AWAIT_NEW_LEADER: frozenset(
            {ClientState.AWAIT_NEW_LEADER_CONNECTION, ClientState.PENDING_CLOSE, ClientState.CLOSED}
        ),
        ClientState.AWAIT_NEW_LEADER_CONNECTION: frozenset(
            {
                ClientState.CONNECTED,
                ClientState.AWAIT_NEW_LEADER,
                ClientState.AWAIT_NEW_LEADER_CONNECTION,
                ClientState.PENDING_CLOSE,
                ClientState.CLOSED,
            }
        ),
        ClientState.PENDING_CLOSE: frozenset({ClientState.CLOSED}),
        ClientState.CLOSED: frozenset(),
    }
)
