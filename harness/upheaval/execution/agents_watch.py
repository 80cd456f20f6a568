"""Collects what agents in the members' networks saw of the consensus stream, and orders it.

Each agent sees the links to its own member. All run on one machine and share one monotonic clock. A datagram that one
agent let through is therefore earlier than its consequences at another.
"""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from upheaval.errors import EnvironmentFault
from upheaval.execution.consensus_watch import ConsensusWatch
from upheaval_chaos.seen_datagrams import ANSWER_MAX, Entry
from upheaval_chaos.toxic_links import ProxyPlace
from upheaval_chaos.toxiproxy import ToxiproxyApi
from upheaval_node.types import NEVER_NS

SILENCE_S: Final = 30.0
"""The seconds of silence after which an agent is not asked any more, and the others do not wait for it."""
_INTERVAL_S: Final = 0.2


class AgentsWatch:
    """Polls all agents in its own thread until it is closed. Close it while the agents still answer."""

    def __init__(
        self,
        path: Path,
        places: Iterable[ProxyPlace],
        agents: Sequence[ToxiproxyApi],
        silence_s: float = SILENCE_S,
    ) -> None:
        """Raises `EnvironmentFault` when the file cannot be opened."""
        self._watch = ConsensusWatch(path, places)
        self._silence_s = silence_s
        self._asked = [_Asked(agent) for agent in agents]
        self._pool = ThreadPoolExecutor(max(1, len(agents)), "consensus watch")
        self._carried: dict[str, tuple[int, int]] = {}
        self._entries: list[Entry] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="consensus watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ask for the last time. An agent that does not answer, or is not asked any more, reports nothing of
        its links.
        """
        self._stop.set()
        self._thread.join()
        self._carried.clear()
        self._ask()
        self._pool.shutdown()
        self._pass_on(self._entries)
        self._watch.close(self._carried)

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            self._ask()
            until = min((agent.known_until for agent in self._asked), default=NEVER_NS)
            known = [entry for entry in self._entries if entry[0] < until]
            self._entries = [entry for entry in self._entries if entry[0] >= until]
            self._pass_on(known)

    def _ask(self) -> None:
        """Ask all agents concurrently, and each of them until it has reported everything."""
        asked = self._asked
        while asked:
            answers = list(zip(asked, self._pool.map(_Asked.take, asked), strict=True))
            asked = [agent for agent, taken in answers if taken is not None and self._take(taken)]
        silent_since = time.monotonic() - self._silence_s
        self._asked = [agent for agent in self._asked if agent.answers or agent.heard_s > silent_since]

    def _take(self, taken: Mapping[str, Any]) -> bool:
        """Add an answer. Returns whether the agent may have more."""
        self._entries.extend(map(tuple, taken["seen"]))
        self._carried.update((name, (received, sent)) for name, (received, sent) in taken["carried"].items())
        return len(taken["seen"]) >= ANSWER_MAX

    def _pass_on(self, entries: list[Entry]) -> None:
        """Pass the entries on in order. Entries of equal time are from one agent, or independent."""
        for ns, name, is_sent, digits in sorted(entries, key=lambda entry: entry[0]):
            link = self._watch.watch_of(name)
            if link is not None:
                (link.on_sent if is_sent else link.on_received)(bytes.fromhex(digits), ns)


class _Asked:
    """One agent, and the time up to which it has reported."""

    def __init__(self, agent: ToxiproxyApi) -> None:
        self._agent = agent
        self.known_until = 0
        self.answers = True
        self.heard_s = time.monotonic()

    def take(self) -> Mapping[str, Any] | None:
        """The next answer; None when the agent does not answer."""
        try:
            taken = self._agent.take_seen()
        except EnvironmentFault:
            self.answers = False
            return None
        self.known_until, self.answers, self.heard_s = taken["now"], True, time.monotonic()
        return taken
