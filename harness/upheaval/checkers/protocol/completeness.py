"""Leader completeness: no term begins below a position that was committed in an earlier term.

The facts come from members' traces or from the messages between members. Raises findings as `Broken`. Knows no files.
"""

from dataclasses import dataclass

from upheaval.checkers.evidence.protocol_events import MemberEvent, Place
from upheaval.checkers.signature import LEADER, Rule, Signature
from upheaval.checkers.verdict import Broken, Verdict


@dataclass(frozen=True, slots=True)
class Mark:
    """A position that a member reported, and the place of the report."""

    position: int
    place: Place


class TermLogs:
    """The base position of each term, and the highest position committed in it.

    `is_forgetful`: some member may have lost what it had reported.
    """

    def __init__(self, is_forgetful: bool) -> None:
        self._is_forgetful = is_forgetful
        self.bases: dict[int, Mark] = {}
        self.committed: dict[int, Mark] = {}
        self._roles: dict[int, str] = {}
        """By term, of the members that called that position committed."""

    def begin(self, event: MemberEvent, term: int, base: int) -> None:
        """Note where a term begins, as an event shows it. Raises `Broken`."""
        known = self.bases.get(term)
        if known is None:
            known = self.bases[term] = Mark(base, event.place)
            for earlier, committed in self.committed.items():
                self._require_complete(earlier, committed, term, known)
        elif known.position != base:
            detail = f"term {term} begins at {known.position} ({known.place}) and at {base} ({event.place})"
            members = tuple(dict.fromkeys((event.member_id, known.place.member_id)))
            raise Broken(Verdict.INVALID, detail, members=members, position=base)

    def commit(self, term: int, mark: Mark, role: str = LEADER) -> None:
        """Note a position that a leader announced as committed, or that a member committed in its own log. Raises
        `Broken`.
        """
        known = self.committed.get(term)
        if known is None or mark.position > known.position:
            self.committed[term] = mark
            self._roles[term] = role
            for later, base in self.bases.items():
                self._require_complete(term, mark, later, base)

    def has_committed_before_it(self, position: int, term: int) -> bool:
        """Whether a later term that begins at `position` or beyond has committed up to it. Then the log there is of
        `term`, but another term's leader may have committed it. Terms in between may have begun further back without
        any effect; one that committed more than it began with has replaced that log.
        """
        for later in sorted(self.bases.keys() & self.committed.keys()):
            base, committed = self.bases[later].position, self.committed[later].position
            if later > term and base >= position:
                if committed >= position:
                    return True
            elif later > term and committed > base:
                return False
        return False

    def summary(self) -> str:
        """Summarise what the promise rests on if it was kept."""
        shown = ", ".join(f"{term}: {mark.position}" for term, mark in sorted(self.committed.items())[-8:])
        return f"{len(self.committed)} terms with a commit position" + (f" ({shown})" if shown else "")

    def _require_complete(self, earlier: int, committed: Mark, later: int, base: Mark) -> None:
        if later <= earlier or committed.position <= base.position:
            return
        detail = (
            f"term {later} begins at {base.position} ({base.place}), below {committed.position}, which was committed "
            f"in term {earlier} ({committed.place})"
        )
        verdict = Verdict.UNKNOWN if self._is_forgetful else Verdict.INVALID
        text = f"{detail}; the files of a member were lost" if self._is_forgetful else detail
        members = tuple(dict.fromkeys((base.place.member_id, committed.place.member_id)))
        signature = Signature(Rule.TERM_BELOW_COMMIT, role=self._roles.get(earlier, LEADER))
        raise Broken(verdict, text, members=members, position=committed.position, signature=signature)
