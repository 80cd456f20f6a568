"""Planted bugs of replication: what counts as recorded by a quorum, and what is read before it is committed."""

from collections.abc import Container
from typing import Final

from upheaval_chaos.planted.bug import INVARIANTS, Area
from upheaval_chaos.planted.changes import in_elections, replace_method, replacing
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.election import Election
from upheaval_node.cluster.members import quorum_position
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message, with_values
from upheaval_node.service.container import ServiceContainer
from upheaval_node.types import LOG_START, MAX_POSITION, Now, Position

AREA: Final[Area] = Area("replication")
A_PAGE: Final = 4096


@AREA.bug("acknowledged-not-lost", scenario="leader-left-alone", breaks_too=("commits-kept",))
def commit_without_a_quorum(module: ConsensusModule) -> None:
    """A leader commits, applies and answers what it alone has recorded."""
    membership = module.membership

    @replacing(membership, "quorum_position")
    def own_position(now: Now, log_terms: Container[int]) -> Position:  # noqa: ARG001 - in place of the membership's own
        return max(membership.own.log_position, LOG_START)


@AREA.bug(INVARIANTS, "commits-kept", "logs-equal", "acknowledged-not-lost", is_rare=True)
def positions_of_other_terms_count(module: ConsensusModule) -> None:
    """A leader counts positions for its quorum that members reported of another term's log."""
    membership = module.membership

    @replacing(membership, "quorum_position")
    def any_position(now: Now, log_terms: Container[int]) -> Position:  # noqa: ARG001 - in place of the membership's own
        return quorum_position(membership.all, now.ns, membership._timeout_ns)


@AREA.bug(INVARIANTS, "commits-kept")
def commit_position_goes_back(module: ConsensusModule) -> None:
    """An election begins below what the member has committed."""

    @in_elections(module)
    def forgetful(election: Election) -> None:
        election.log_position = Position(max(election.log_position - A_PAGE, 0))


@AREA.bug(INVARIANTS, "commits-kept", "acknowledged-not-lost")
def unrecorded_log_reported(module: ConsensusModule) -> None:
    """A follower reports the position that it has received, and not the one that it has recorded."""
    publisher, log = module._publisher, module._log
    send = publisher.send

    @replacing(publisher, "send")
    def send_received(now: Now, member_id: int, message: Message) -> bool:
        if isinstance(message, cm.AppendPosition) and module.election is None:
            received = Position(log.follower_log.received_position)
            message = with_values(message, log_position=max(message.log_position, received))
        return send(now, member_id, message)


@AREA.bug(INVARIANTS, "commits-kept", "acknowledged-not-lost", is_rare=True)
def unrecorded_log_counted(module: ConsensusModule) -> None:
    """A leader counts for its quorum what it has sent, and not what it has recorded."""
    log = module._log

    @replacing(log, "lead")
    def lead(now: Now) -> int:
        term_id, sent = module.leadership_term_id, Position(log.publisher.position)
        module.membership.own.record(term_id, sent, now.ns)
        return log.commit(now, term_id, sent, module.membership.quorum_position(now, (term_id,)))


@AREA.bug(INVARIANTS, "commits-kept")
def uncommitted_log_announced(module: ConsensusModule) -> None:
    """A leader names the end of its log as the commit position."""
    publisher, log = module._publisher, module._log
    send_to_others = publisher.send_to_others

    @replacing(publisher, "send_to_others")
    def announce(now: Now, message: Message) -> None:
        if isinstance(message, cm.CommitPosition) and module.election is None:
            message = with_values(message, log_position=Position(log.publisher.position))
        send_to_others(now, message)


@AREA.bug(INVARIANTS, "answered-when-committed", "states-agree")
def uncommitted_entries_applied(container: ServiceContainer) -> None:
    """A service applies and answers what is in the log before it is committed."""
    poll = container._log.poll
    replace_method(container._log, "poll", lambda commit_position: poll(MAX_POSITION))  # noqa: ARG005
