"""A service snapshot as the judges of states read it, without the rest of the recording."""

from typing import Protocol


class MemberState(Protocol):
    """A snapshot of a service that a member recorded."""

    @property
    def owner(self) -> str:
        """The name of the member or standby."""

    @property
    def member_id(self) -> int:
        """The member's id; -1 for a standby."""

    @property
    def position(self) -> int:
        """The log position."""

    @property
    def service_id(self) -> int:
        """The number of the service in its member."""

    @property
    def state(self) -> tuple[bytes, ...]:
        """The messages that the service wrote."""

    @property
    def hash(self) -> str:
        """The state hash."""
