"""When a member ran alone: it then has no connection, so it sends and receives nothing, and its trace has no messages.

A process that traced no end counts as running until a fault ended it or its next one began: a trace that only breaks
off excuses no other member.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from upheaval.checkers.evidence.protocol_events import ENDING, OF_MODULE, deadly_until_ns, is_deadly
from upheaval.checkers.evidence.trace_facts import ProcessLife, TraceFacts
from upheaval_chaos.record import FaultRecord
from upheaval_node.types import NEVER_NS


def times_alone(
    traces: Iterable[TraceFacts], faults: Sequence[FaultRecord], member_id: int
) -> Iterator[tuple[int, int]]:
    """When no consensus module of another member ran, from each begin to its end."""
    others = chain.from_iterable(facts.lives for facts in traces if facts.member_id != member_id)
    since_ns = 0
    for begin_ns, end_ns in sorted(
        (life.begin_ns, _end_ns(life, faults)) for life in others if life.component in OF_MODULE
    ):
        if begin_ns > since_ns:
            yield since_ns, begin_ns
        since_ns = max(since_ns, end_ns)
    if since_ns < NEVER_NS:
        yield since_ns, NEVER_NS


def _end_ns(life: ProcessLife, faults: Iterable[FaultRecord]) -> int:
    if life.status is not None:
        return life.last_ns
    by_faults = (
        max(life.last_ns, fault.inject_begin_ns)
        for fault in faults
        if is_deadly(fault, life.member_id, ENDING)
        and fault.component in (None, life.component)
        and deadly_until_ns(fault) >= life.begin_ns
    )
    return min([NEVER_NS if life.next_ns is None else life.next_ns, *by_faults])
