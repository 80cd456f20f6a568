"""What agents in the networks of members have seen of the consensus stream, fetched and put in order.

Each agent sees the links to its own member. They are on one machine and have one monotonic clock, so what one of them
let through is earlier than what came of it at another.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from upheaval.errors import EnvironmentFault
from upheaval.execution.consensus_watch import ConsensusWatch
from upheaval_chaos.seen_datagrams import Entry
from upheaval_chaos.toxic_links import ProxyPlace
from upheaval_chaos.toxiproxy import ToxiproxyApi

_INTERVAL_S: Final = 0.2


class AgentsWatch:
    """Asks all agents now and then, in a thread of its own, until it is closed: to be done while they still answer."""

    def __init__(self, path: Path, places: Iterable[ProxyPlace], agents: Sequence[ToxiproxyApi]) -> None:
        """Raises `EnvironmentFault` when the file cannot be opened."""
        self._watch = ConsensusWatch(path, places)
        self._agents = agents
        self._known_until = [0] * len(agents)
        self._carried: dict[str, tuple[int, int]] = {}
        self._entries: list[Entry] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="consensus watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ask for the last time. An agent that does not answer has told nothing of its links."""
        self._stop.set()
        self._thread.join()
        self._carried.clear()
        self._ask()
        self._pass_on(self._entries)
        self._watch.close(self._carried)

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            self._ask()
            until = min(self._known_until)
            known = [entry for entry in self._entries if entry[0] < until]
            self._entries = [entry for entry in self._entries if entry[0] >= until]
            self._pass_on(known)

    def _ask(self) -> None:
        for number, agent in enumerate(self._agents):
            with suppress(EnvironmentFault):
                self._take(number, agent.take_seen())

    def _take(self, number: int, taken: Mapping[str, Any]) -> None:
        self._known_until[number] = taken["now"]
        self._entries.extend(map(tuple, taken["seen"]))
        self._carried.update((name, (received, sent)) for name, (received, sent) in taken["carried"].items())

    def _pass_on(self, entries: list[Entry]) -> None:
        """Equal times are of one agent, or of what has nothing to do with each other."""
        for ns, name, is_sent, digits in sorted(entries, key=_time_of):
            link = self._watch.watch_of(name)
            if link is not None:
                (link.on_sent if is_sent else link.on_received)(bytes.fromhex(digits), ns)


def _time_of(entry: Entry) -> int:
    return entry[0]
