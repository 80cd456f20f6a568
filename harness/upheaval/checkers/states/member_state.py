"""A snapshot of a service as the judges of its state read it, whatever else was recorded with it."""

from typing import Protocol


class MemberState(Protocol):
    """A snapshot of a service, as a member recorded it."""

    @property
    def owner(self) -> str:
        """The member, or the standby."""

    @property
    def member_id(self) -> int:
        """-1 of a standby."""

    @property
    def position(self) -> int:
        """Of the log."""

    @property
    def service_id(self) -> int:
        """Its number in the member."""

    @property
    def state(self) -> tuple[bytes, ...]:
        """The messages that the service wrote."""

    @property
    def hash(self) -> str:
        """Of them."""
