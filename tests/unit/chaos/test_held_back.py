"""A slow link on a machine that is itself late: the proof does not count what an earlier try of it sent."""

from collections.abc import Mapping
from typing import Any

import pytest

from upheaval_chaos.errors import UnknownOutcome, UsageError
from upheaval_chaos.faults import exactly
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.target import Answer, Link, LinkFaultKind, Ping

MS = 1_000_000
LATENCY_MS = 50
READ_MS = 8


class Late:
    """One link and a clock. The first bulk ping outlasts the latency, and looking at the counts takes time."""

    member_ids = range(3)

    def __init__(self, *, is_slow: bool) -> None:
        self._is_slow = is_slow
        self._latency_ms = 0
        self._ns = 0
        self._overrun_ms = 22
        self._sent: list[tuple[int, int]] = []

    def node(self, _: int) -> Any:
        raise AssertionError("no look at members is due")

    def leader(self) -> int:
        return 0

    def hosts(self, *_: object) -> Any:
        raise UsageError("no host watches links")

    def impose(self, *_: object) -> None:
        self._latency_ms = LATENCY_MS

    def delivered_by_stream(self, _: Link) -> Mapping[str, int]:
        self.let_pass(READ_MS / 1000)
        looked_ns = self._ns - READ_MS * MS // 2
        held_ns = self._latency_ms * MS * self._is_slow
        return {"stream": sum(length for sent_ns, length in self._sent if sent_ns + held_ns <= looked_ns)}

    def ping(self, _: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        if not extra_length:
            round_trip_ns = (1 + self._latency_ms) * MS
            self._ns += round_trip_ns
            return Ping(Answer.ANSWERED, round_trip_ns)
        self._sent.append((self._ns, extra_length))
        self.let_pass(timeout_s + self._overrun_ms / 1000)
        self._overrun_ms = 0
        return Ping(Answer.SILENT)

    def now_ns(self) -> int:
        return self._ns

    def let_pass(self, seconds: float) -> None:
        self._ns += int(seconds * 1e9)

    def wait_until(self, condition: Any, timeout_s: float, what: str) -> None:
        self.let_pass(timeout_s)
        if not condition():
            raise UnknownOutcome(what)


@pytest.mark.parametrize("is_slow", [True, False])
def test_only_a_link_that_holds_nothing_back_is_not_slow(is_slow: bool) -> None:
    target: Any = Late(is_slow=is_slow)
    fault = LinkFault(LinkFaultKind.SLOW, exactly([0]), exactly([1]), latency_ms=LATENCY_MS)
    injection = fault.aim(target)
    injection.act()
    proof = injection.prove()
    assert proof.holds == is_slow, proof
