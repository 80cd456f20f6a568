"""The evidence of one run: the parts of its folder that checkers read, each read once, on first use.

This module knows files and facts; it knows no promise and no verdict.
"""

from collections.abc import Sequence
from functools import cached_property

from upheaval.checkers.evidence.call_times import CallTimes, call_times
from upheaval.checkers.evidence.leader_clocks import LeaderClock, leader_clocks
from upheaval.checkers.evidence.logs import ComparedLogs, WitnessLog, compare_logs
from upheaval.checkers.evidence.positions import TracedPositions, finals_of, traced_positions
from upheaval.checkers.evidence.session_limit import full_times, session_limit
from upheaval.checkers.evidence.spans import MemberSpans, spans_of
from upheaval.checkers.evidence.stalls import Stall, longer, longest_client_stall, longest_stall
from upheaval.checkers.evidence.trace_facts import TraceFacts, facts_of_members
from upheaval.checkers.evidence.troubles import Trouble, troubles
from upheaval.checkers.history.attribution import Attribution, attributed
from upheaval.checkers.history.calls import CountedCalls, count_calls
from upheaval.checkers.history.columns import History, LogEntries, PlacedHistory
from upheaval.checkers.history.placed_calls import PlacedCalls, place_calls
from upheaval.checkers.own.java_service import JavaReplay, replay_java
from upheaval.records import (
    ControlRecord,
    FinalPosition,
    Function,
    Manifest,
    Operation,
    RunFolder,
    SessionEnd,
    Stray,
)
from upheaval.records.own_source import with_code_here
from upheaval.records.strays import STRAYS_NAME
from upheaval.runtime_names import SIMULATED
from upheaval_chaos.record import FaultRecord


class Evidence:
    """The evidence in a run folder at rest. Every part raises `UsageError` for a malformed file."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the run, with the place where the code of its service is now."""
        return with_code_here(self.run.read_manifest())

    @cached_property
    def finals(self) -> Sequence[FinalPosition]:
        """The members' final positions; empty if the run did not converge."""
        return finals_of(self.manifest)

    @cached_property
    def operations(self) -> History:
        """The history in the order of its lines; empty without one."""
        return History.read(self.run.history_file) if self.run.history_file.exists() else History.of(())

    @cached_property
    def calls(self) -> Sequence[Operation]:
        """The requests to a custom service, which the log has by payload.

        A call whose answer may be another message counts as unanswered.
        """
        return self.attribution.calls

    @cached_property
    def attribution(self) -> Attribution:
        """Which calls certainly have their answers."""
        return attributed(self.sent_calls, self.strays) if self.sent_calls else Attribution(())

    @cached_property
    def sent_calls(self) -> Sequence[Operation]:
        """The same calls as the history has them."""
        has_calls = self.operations.has_calls()
        return [operation for operation in self.operations if operation.f is Function.CALL] if has_calls else ()

    @cached_property
    def counted_calls(self) -> CountedCalls:
        """The calls, each with its occurrences in the log."""
        return count_calls(self.calls, () if self.whole_log is None else self.whole_log.calls)

    @cached_property
    def placed_calls(self) -> PlacedCalls:
        """The calls by their place in the whole log."""
        return place_calls(self.calls, () if self.whole_log is None else self.whole_log.calls)

    @cached_property
    def call_times(self) -> CallTimes | None:
        """When the log took the calls; None without a whole log."""
        if not self.sent_calls:
            return CallTimes()
        log = self.whole_log
        return None if log is None else call_times(self.sent_calls, log.calls, self.clocks, log.events.time_unit)

    @cached_property
    def placed(self) -> PlacedHistory:
        """Which operation of the whole log is which of the history."""
        return PlacedHistory(self.operations, LogEntries.of(()) if self.whole_log is None else self.whole_log.entries)

    @cached_property
    def session_ends(self) -> Sequence[SessionEnd]:
        """The clients' records of their sessions."""
        return list(self.run.read_session_ends())

    @cached_property
    def strays(self) -> Sequence[Stray]:
        """The answers for which no operation of the client waited."""
        return list(self.run.read_strays())

    @cached_property
    def has_all_of_clients(self) -> bool:
        """Whether the clients recorded each session and each stray answer; those of older versions did not."""
        return STRAYS_NAME in self.manifest.written

    @cached_property
    def faults(self) -> Sequence[FaultRecord]:
        """The injector's records of the faults."""
        return list(self.run.read_faults())

    @cached_property
    def controls(self) -> Sequence[ControlRecord]:
        """The admin commands, with the members' observed states afterwards."""
        return list(self.run.read_controls())

    @cached_property
    def troubles(self) -> Sequence[Trouble]:
        """When faults and commands may have delayed members."""
        return list(troubles(self.run, self.traces))

    @cached_property
    def traces(self) -> Sequence[TraceFacts]:
        """Processes, positions and errors in the trace of each member."""
        return facts_of_members(self.run, self.manifest.members)

    @cached_property
    def is_over(self) -> bool:
        """Whether the run was collected, or should have been: a simulated run is written at its end, and a converged
        one whose processes have all traced their ends is ended before it is judged.
        """
        if self.manifest.sealed is not None or self.manifest.runtime == SIMULATED:
            return True
        return self.manifest.converge is not None and all(facts.has_ended for facts in self.traces)

    @cached_property
    def spans(self) -> Sequence[MemberSpans]:
        """When each member was in an election, led, and took part."""
        return [spans_of(self.run.member(member_id)) for member_id in range(self.manifest.members)]

    @cached_property
    def clocks(self) -> Sequence[LeaderClock]:
        """The clocks of the leaders, by their traces."""
        return leader_clocks(self.run, self.manifest.members)

    @cached_property
    def full_times(self) -> Sequence[tuple[int, int]]:
        """When the cluster had as many sessions as it may have; empty without a whole log."""
        log = self.whole_log
        return () if log is None else list(full_times(session_limit(self.manifest), log.events, self.clocks))

    @cached_property
    def positions(self) -> TracedPositions:
        """The commit and append positions in the traces."""
        return traced_positions(self.run, self.manifest)

    @cached_property
    def stall(self) -> Stall | None:
        """The longest stall of any member."""
        return longest_stall(self.run, self.manifest.members)

    @cached_property
    def stall_with_clients(self) -> Stall | None:
        """The longest stall of any member or process of clients."""
        return longer(self.stall, longest_client_stall(self.run))

    @cached_property
    def logs(self) -> ComparedLogs:
        """The members' logs, compared frame by frame."""
        return compare_logs(self.run, self.finals, self.manifest.members, self.positions)

    @cached_property
    def whole_log(self) -> WitnessLog | None:
        """The longest log up to the commit position; None if its beginning is missing."""
        log = self.logs.witness
        return None if log is None or log.why_not_whole else log

    @cached_property
    def why_no_log(self) -> str:
        """Why there is no whole log; empty if there is one."""
        log = self.logs.witness
        return "no readable log" if log is None else log.why_not_whole or ""

    def java_replay(self) -> JavaReplay:
        """The results of copies of a Java service that read the longest log. They run at the first call."""
        return self._java_replay

    @cached_property
    def _java_replay(self) -> JavaReplay:
        log = self.logs.witness
        if log is None:
            return JavaReplay(why_not=self.why_no_log)
        return replay_java(self.run, self.manifest, log.member_id, log.end_position)
