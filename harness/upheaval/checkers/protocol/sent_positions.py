"""Compares the positions in messages that members received with those that their senders traced.

Only values are compared, and only at the end: a member may receive a message long after it was sent, in a later life,
or twice, but none with a higher position than was ever sent. Knows no files.
"""

from collections.abc import Collection, Iterator
from typing import Final

from upheaval.checkers.evidence.protocol_events import MemberEvent
from upheaval.checkers.verdict import Broken

_MESSAGES: Final = {
    "RequestVote": ("candidate_member_id", ("candidate_term_id", "log_leadership_term_id"), ("log_position",)),
    "Vote": ("follower_member_id", ("candidate_term_id", "log_leadership_term_id"), ("log_position",)),
    "CanvassPosition": ("follower_member_id", ("leadership_term_id", "log_leadership_term_id"), ("log_position",)),
    "NewLeadershipTerm": ("leader_member_id", ("leadership_term_id",), ("log_position", "commit_position")),
}
"""By message: which field names the sender, which ones the position belongs to, and the fields with a position."""

_Key = tuple[str, int, tuple[int, ...]]
"""A message and its position field, the sender, and what the position belongs to."""
_NOTHING: Final = -1


class SentPositions:
    """The highest positions in `messages`, as members sent and received them."""

    def __init__(self, members: int, messages: Collection[str]) -> None:
        self._members = members
        self._messages = messages
        self._sent: dict[_Key, int] = {}
        self._received: dict[_Key, tuple[int, MemberEvent]] = {}

    def note_sent(self, event: MemberEvent) -> None:
        """Note a message that a member sent."""
        for key, position in self._positions(event, event.member_id):
            self._sent[key] = max(self._sent.get(key, _NOTHING), position)

    def note_received(self, event: MemberEvent) -> None:
        """Note a message that a member received. Senders that are no members are ignored, as members ignore them."""
        for key, position in self._positions(event, None):
            if key[1] in range(self._members) and position > self._received.get(key, (_NOTHING, event))[0]:
                self._received[key] = position, event

    def unsent(self) -> Iterator[tuple[int, Broken]]:
        """The positions that no member sent, with the member that should have."""
        for key, (position, event) in self._received.items():
            field, sender, of = key
            message, name = field.split(".")
            if message == "NewLeadershipTerm" and key not in self._sent:
                # Whether a leader announced its term is the matter of other rules.
                continue
            if self._sent.get(key, _NOTHING) < position:
                fields = ", ".join(
                    f"{of_name} {value}" for of_name, value in zip(_MESSAGES[message][1], of, strict=True)
                )
                detail = (
                    f"member {event.member_id} received a {message} of member {sender} with {name} {position} "
                    f"({fields}), which member-{sender}/trace.jsonl does not have as sent"
                )
                yield sender, event.invalid(detail, sender, position=position)

    def _positions(self, event: MemberEvent, sender: int | None) -> Iterator[tuple[_Key, int]]:
        message = str(event.fields.get("message"))
        if message in self._messages:
            of_sender, of, positions = _MESSAGES[message]
            sender = event.integer(of_sender) if sender is None else sender
            values = tuple(map(event.integer, of))
            for name in positions:
                yield (f"{message}.{name}", sender, values), event.integer(name)
