"""A log that names a term of which it has nothing, and lacks the end of an earlier one (docs/protocol.md, E19).

It has so after its member won a ballot and was passed by one of a later term, whose log goes on in the earlier one.
"""

import pytest

from support.election_script import ElectionScript
from support.memory_storage import MemoryStorage
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.cluster.leadership_terms import NextTerm, next_term_in_election, next_term_when_running
from upheaval_node.cluster.rules import OWN_RULES
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.types import NULL_POSITION, Position, TermId

# It leads term 4; its log has term 0 up to 1024, term 1 up to 2048, and nothing of 2 and 3.
LEADER = """
    member term=1 base=1024 at=2048 consumed=1024 persisted=3
    wait 0
    0 canvasses term=1 at=2048
    1 canvasses term=1 at=1024
    wait 510
    0 votes yes for=4 term=1 at=2048
    1 votes yes for=4 term=1 at=1024
    wait 0
    is LEADER_LOG_REPLICATION
"""
# It names terms 1 and 2, and has nothing of either.
FOLLOWER = """
    member term=2 base=1024 at=1024
    wait 0
    is CANVASS
    hold replicate
    0 leads term=4 base=2048 log-term=2 next=2 next-base=2048 end=2048
    is FOLLOWER_LOG_REPLICATION
    wait 0
"""


def recording_log(*terms: tuple[int, int]) -> RecordingLog:
    log = RecordingLog(MemoryStorage())
    for term_id, base in terms:
        log.append_term(0, TermId(term_id), Position(base), 0)
    return log


def terms_of(log: RecordingLog) -> list[tuple[int, int, int]]:
    log.reload()
    return [(e.leadership_term_id, e.term_base_log_position, e.log_position) for e in log.entries if e.is_valid]


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ("term=2 at=1536", "log-leadership-term-id=2 next-leadership-term-id=2 next-term-base-log-position=2048"),
        ("term=2 at=1024", "log-leadership-term-id=2 next-leadership-term-id=2 next-term-base-log-position=2048"),
        ("term=2 at=512", "log-leadership-term-id=2 next-leadership-term-id=1 next-term-base-log-position=1024"),
        ("term=2 at=2048", "log-leadership-term-id=2 next-leadership-term-id=4 next-term-base-log-position=2048"),
        ("term=1 at=1536", "log-leadership-term-id=1 next-leadership-term-id=4 next-term-base-log-position=2048"),
        ("term=0 at=512", "log-leadership-term-id=0 next-leadership-term-id=1 next-term-base-log-position=1024"),
    ],
)
def test_a_leader_names_the_first_term_of_which_a_log_has_nothing(said: str, answered: str) -> None:
    script = ElectionScript(f"{LEADER}\n 0 canvasses {said}\n sent NewLeadershipTerm to=0 {answered}")
    assert script.state is ElectionState.LEADER_LOG_REPLICATION


def test_a_running_leader_does_so_too() -> None:
    log = recording_log((0, 0), (1, 1024), (2, 2048), (3, 2048), (4, 2048))

    def following(named: int, position: int) -> NextTerm:
        return next_term_when_running(log, TermId(named), Position(position), TermId(4), Position(2048), OWN_RULES)

    assert following(2, 1536) == NextTerm(TermId(2), Position(2048), Position(2048))
    assert following(3, 1536) == NextTerm(TermId(2), Position(2048), Position(2048))
    assert following(3, 2048) == NextTerm(TermId(4), Position(2048), NULL_POSITION)
    assert following(1, 1536) == NextTerm(TermId(2), Position(2048), Position(2048))
    assert following(4, 1536) == NextTerm()


def test_a_longer_log_is_told_where_the_next_term_begins() -> None:
    log = recording_log((0, 0), (1, 1024), (2, 2048))
    following = next_term_in_election(log, TermId(1), Position(3072), TermId(2), TermId(5), Position(4096), OWN_RULES)
    assert following == NextTerm(TermId(2), Position(2048), Position(4096))


def test_a_follower_moves_empty_terms_along_with_the_entries_of_the_earlier_one() -> None:
    script = ElectionScript(FOLLOWER)
    transfer = script.log.work[-1]
    transfer.position = 1536
    script.say("wait 10")
    assert script.terms == [(0, 0, 1024), (1, 1024, 1536), (2, 1536, -1)]
    script.say("""
        let replicate
        0 committed term=4 at=2048
        wait 10
        is CANVASS
    """)
    assert script.terms[:3] == [(0, 0, 1024), (1, 1024, 2048), (2, 2048, 2048)]
    # What it says in votes is what it said before: the last term that it named, though it has nothing of it.
    script.say("sent CanvassPosition to=0 log-leadership-term-id=2 log-position=2048")


def test_moved_terms_are_in_the_file() -> None:
    log = recording_log((0, 0), (1, 1024), (2, 1024), (3, 1024))
    log.move_empty_terms(TermId(2), Position(2048))
    assert terms_of(log) == [(0, 0, 1024), (1, 1024, 2048), (2, 2048, 2048), (3, 2048, -1)]
    log.move_empty_terms(TermId(2), Position(2048))
    assert terms_of(log) == [(0, 0, 1024), (1, 1024, 2048), (2, 2048, 2048), (3, 2048, -1)]


@pytest.mark.parametrize(
    ("position", "last", "expected"), [(0, 4, 0), (1023, 4, 0), (1024, 4, 3), (1024, 1, None), (9999, 4, 3), (5, 0, 0)]
)
def test_a_term_without_length_holds_no_position(position: int, last: int, expected: int | None) -> None:
    log = recording_log((0, 0), (1, 1024), (2, 1024), (3, 1024))
    found = log.find_term_at(Position(position), TermId(last))
    assert (None if found is None else found.leadership_term_id) == expected


@pytest.mark.parametrize("at", [1536, 2048])
def test_a_term_that_was_closed_before_the_next_was_named_goes_on_to_it(at: int) -> None:
    """A full disk ended the member when it had closed term 1, and before it had named one of its own."""
    script = ElectionScript(f"""
        member term=1 base=1024 at={at}
        wait 0
        is CANVASS
    """)
    script.around.recording_log.commit_log_position(TermId(1), Position(1536))
    script.say("""
        0 leads term=4 base=2048 log-term=1 next=4 next-base=2048
        0 committed term=4 at=2048
        wait 10
        wait 10
        0 leads term=4 base=2048 log-term=1 next=4 next-base=2048
        wait 10
    """)
    assert script.terms == [(0, 0, 1024), (1, 1024, 2048), (2, 2048, 2048), (3, 2048, 2048), (4, 2048, -1)]
