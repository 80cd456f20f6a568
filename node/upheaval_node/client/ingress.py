"""The ingress side of a client: the members that it knows, and the publications that it dials.

Knows endpoints and publications, nothing of sessions or messages. Endpoint lists also come from the cluster, so they
are checked like any peer input.
"""

from collections.abc import Mapping
from typing import Final

from upheaval_node.client.ports import ClientMedia, IngressPublication
from upheaval_node.errors import NodeError, PeerError, UsageError
from upheaval_node.protocol.channel import split_endpoint

MAX_MEMBERS: Final = 64
"""The most endpoints in a list, more than any cluster has members. Limits what a hostile list can make a
client dial.
"""


def parse_ingress_endpoints(text: str) -> dict[int, str]:
    """Parse `0=host:port,1=host:port` into endpoints by member id (Aeron Cluster: ingress endpoints).

    Raises `UsageError` when `text` is malformed.
    """
    endpoints: dict[int, str] = {}
    for part in text.split(","):
        member, separator, endpoint = part.partition("=")
        if not separator or not member.isascii() or not member.isdigit() or len(member) > 9:
            raise UsageError(f"ingress endpoint {part!r} is not of the form id=host:port")
        split_endpoint(endpoint)
        if int(member) in endpoints:
            raise UsageError(f"duplicate member {member} in the ingress endpoints")
        endpoints[int(member)] = endpoint
        if len(endpoints) > MAX_MEMBERS:
            raise UsageError(f"more than {MAX_MEMBERS} ingress endpoints")
    return endpoints


def parse_received_endpoints(text: str) -> dict[int, str]:
    """Parse a list that a member sent. Raises `PeerError` when it is malformed."""
    try:
        return parse_ingress_endpoints(text)
    except UsageError as error:
        raise PeerError(f"the cluster sent bad ingress endpoints: {error}") from error


class Ingress:
    """Publications to members by id. `failures` has the reason for each member without a possible publication.

    With `keeps_all` the connections to all members stay open. A client whose egress comes back on the connections that
    it dials can learn of a new leader only from a member that it is connected to.
    """

    def __init__(self, media: ClientMedia, endpoints: Mapping[int, str], stream_id: int, *, keeps_all: bool) -> None:
        self.endpoints = dict(endpoints)
        self.failures: dict[int, str] = {}
        self._keeps_all = keeps_all
        self._media = media
        self._stream_id = stream_id
        self._publications: dict[int, IngressPublication] = {}

    def dial_all(self) -> None:
        """Ensure that there is a publication to every member."""
        for member_id in self.endpoints:
            self.dial(member_id)

    def dial(self, member_id: int) -> None:
        """Create the publication to a member, unless there is one. The media keeps dialling it."""
        present = self._publications.get(member_id)
        if present is not None and not present.is_closed:
            return
        channel = f"aeron:tcp?endpoint={self.endpoints[member_id]}|alias=ingress"
        try:
            self._publications[member_id] = self._media.add_publication(channel, self._stream_id)
        except NodeError as error:
            self.failures[member_id] = str(error)

    def publication(self, member_id: int) -> IngressPublication | None:
        """The publication to a member, None if it was not dialled."""
        return self._publications.get(member_id)

    def connected_member(self, preferred: int | None) -> int | None:
        """A connected member: the preferred one if it is connected, else the first. None without a connection."""
        connected = [member_id for member_id, publication in self._publications.items() if publication.is_connected]
        if preferred in connected:
            return preferred
        return connected[0] if connected else None

    def replace(self, endpoints: Mapping[int, str]) -> None:
        """Replace the endpoints. Publications to members with the same endpoint are kept."""
        for member_id in list(self._publications):
            if endpoints.get(member_id) != self.endpoints.get(member_id):
                self.hang_up(member_id)
        self.endpoints = dict(endpoints)

    def settle_on(self, leader_member_id: int) -> None:
        """Keep a publication to the leader, and to the others only with `keeps_all`."""
        if self._keeps_all:
            self.dial_all()
            return
        self.dial(leader_member_id)
        for other in list(self._publications):
            if other != leader_member_id:
                self.hang_up(other)

    def hang_up(self, member_id: int) -> None:
        """Close the publication to a member."""
        publication = self._publications.pop(member_id, None)
        if publication is not None:
            publication.close()

    def close(self) -> None:
        """Close the publications to all members."""
        for member_id in list(self._publications):
            self.hang_up(member_id)
