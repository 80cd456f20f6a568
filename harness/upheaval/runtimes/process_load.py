"""Load on a cluster of processes: many client slots in one thread of this process, over real sockets.

One loop drives all sessions, so operations are pipelined and thousands complete in seconds. This module only does the
wiring; the workload chooses operations and settles outcomes.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from random import SystemRandom
from types import TracebackType
from typing import Final

from upheaval.errors import UnknownOutcome
from upheaval.records import ClientStall
from upheaval.runtimes.live import AnyCluster
from upheaval.system import ClientNeeds
from upheaval.waits import wait_until
from upheaval.workload import ClientLoad, Load, LoadCounts, LoadMaker, WorkloadSettings
from upheaval_node.media.resolver import NamingResolver
from upheaval_node.runtime.client_security import client_identity
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.credentials_file import credentials_supplier
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.tls_files import MEMBER, member_name
from upheaval_node.types import MS, S

_DRAIN_TIMEOUT_S: Final = 10.0
END_TIMEOUT_S: Final = 60.0
"""To drain, and to end the clients: a bridge closes its sessions first."""
# The time after which an idle thread checks whether it should stop.
_LOOK_NS: Final = 20 * MS
_CLOSE_TIMEOUT_NS: Final = 200 * MS


class ProcessLoad:
    """Runs a load in its own thread until `finish`. Use it in a `with` statement; it raises an error of the load."""

    def __init__(
        self,
        cluster: AnyCluster,
        settings: WorkloadSettings,
        *,
        first_id: int = 0,
        credentials_file: str = "",
        make: LoadMaker = Load,
    ) -> None:
        way = cluster.way_in()
        tls = cluster.client_tls()
        if tls is not None:
            names = {endpoint: member_name(member_id) for member_id, endpoint in way.endpoints.items()}
            way = replace(way, resolver=NamingResolver(way.resolver, names, MEMBER))
        with ExitStack() as opened:
            self._history = opened.enter_context(cluster.run.history_writer())
            self._loop = Loop()
            opened.callback(self._loop.close)
            self._network = SelectorNetwork(self._loop, client_identity(tls, lambda _: None))
            opened.callback(self._network.close)
            needs = ClientNeeds(way, self._network, SystemRandom(), credentials_supplier(credentials_file))
            self._clients = cluster.system.clients(needs)
            opened.callback(self._clients.close)
            self._load = self._made_load(cluster, settings, first_id, make)
            opened.pop_all()
        self._cycle = DutyCycle(
            self._loop,
            SystemClock(),
            (*self._clients.agents, self._load),
            on_stall=lambda now, ns: cluster.run.add_client_stall(ClientStall(now.ns - ns, now.ns)),
        )
        self._name = f"the load on {settings.service}"
        self._stop_wanted = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def _made_load(self, cluster: AnyCluster, settings: WorkloadSettings, first_id: int, make: LoadMaker) -> ClientLoad:
        return make(
            settings,
            open_session=self._clients.open_session,
            record=self._history.add,
            record_end=cluster.run.add_session_end,
            record_stray=cluster.run.add_stray,
            clock_ns=time.monotonic_ns,
            first_id=first_id,
            first_process=first_id,
        )

    @property
    def raised(self) -> Sequence[str]:
        """The errors that the users' own code raised."""
        return self._load.raised

    @property
    def counts(self) -> LoadCounts:
        """How many operations ended so far, by outcome."""
        return self._load.counts

    def start(self) -> None:
        """Start the load in its thread."""
        self._thread.start()

    def wait_until_acknowledged(self, target: int, timeout_s: float) -> None:
        """Wait until that many operations are acknowledged in total. Raises the error that ended the load instead."""

        def reached() -> bool:
            self._raise_if_failed()
            return self.counts.ok >= target

        wait_until(
            reached,
            timeout_s=timeout_s,
            describe=lambda: f"only {self.counts.ok} of {target} operations were acknowledged",
        )

    def finish(self, timeout_s: float = END_TIMEOUT_S) -> LoadCounts:
        """Invoke no more operations, wait for outstanding ones or give them up, and close the sessions and the complete
        history.
        """
        self._stop_wanted = True
        self._loop.wake()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise UnknownOutcome(f"{self._name} does not end (waited {timeout_s:g} s)")
        self._raise_if_failed()
        return self.counts

    def __enter__(self) -> "ProcessLoad":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self.finish()
        elif error is None:
            self._raise_if_failed()

    def _run(self) -> None:
        try:
            while not self._stop_wanted:
                self._cycle.run_once(_LOOK_NS)
            self._load.stop()
            deadline_ns = time.monotonic_ns() + int(_DRAIN_TIMEOUT_S * S)
            self._cycle.run_until(lambda: self._load.is_idle, deadline_ns)
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._close()

    def _close(self) -> None:
        try:
            self._load.close()
            self._cycle.run_once(0)
            self._history.close()
            self._clients.close()
            self._network.drain(_CLOSE_TIMEOUT_NS)
            self._network.close()
        except BaseException as error:
            self._error = self._error or error
            raise
        finally:
            self._loop.close()

    def _raise_if_failed(self) -> None:
        if self._error is not None:
            raise UnknownOutcome(f"{self._name} ended: {type(self._error).__name__} {self._error}") from self._error
        if self._clients.failure:
            raise UnknownOutcome(f"{self._name} ended: {self._clients.failure}")
