"""The load that a page puts on a cluster: that of `upheaval load`, one at a time, ended by hand."""

import contextlib
import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.execution.stage import require_tasks_passed
from upheaval.load.on_cluster import LOG_FILE, LoadPlan, sessions_max, settings_of, write_workload
from upheaval.load.own import require_locust
from upheaval.load.settings import LoadSettings, Progress
from upheaval.load.users_process import LoadHand, run_users
from upheaval.runtimes.live import AnyCluster

_NOTHING: Final = Progress(0, 0, 0, 0.0, 0.0, None)


class PageLoad:
    """Of one cluster. Methods may be called by any thread."""

    def __init__(self, cluster: AnyCluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def state(self) -> Mapping[str, Any]:
        """As the endpoint has it: of the load that is on, or of the last one."""
        running = self._running
        if running is None:
            return {"is_on": False, "rate": None, "error": "", **asdict(_NOTHING)}
        return {
            "is_on": running.is_on,
            "rate": running.settings.rate,
            "error": running.error,
            **asdict(running.reported),
        }

    def start(self, plan: LoadPlan) -> None:
        """Returns while the users connect: that their class is not there, only their process finds out.

        Raises `UsageError` beside another load and for what makes no sense, `EnvironmentFault` without locust.
        """
        require_locust()
        _check_rate(plan.rate)
        limit = sessions_max(self._cluster.config)
        if not 1 <= plan.users <= limit:
            raise UsageError(f"users: this cluster allows {limit} sessions: expected 1 to {limit}, got {plan.users}")
        with self._lock:
            if self._running is not None and self._running.is_on:
                raise UsageError("a load is running: stop it first")
            if not self._cluster.is_running():
                raise UsageError("no member runs: start the cluster first")
            settings = settings_of(self._cluster, plan)
            write_workload(self._cluster, settings)
            self._running = _Running(self._cluster, settings)

    def set_rate(self, rate: float) -> None:
        """Operations a second of each user from now on. Raises `UsageError` without a load."""
        _check_rate(rate)
        with self._lock:
            running = self._on()
            running.set_rate(rate)
            write_workload(self._cluster, running.settings)

    def stop(self) -> None:
        """Returns when every user has ended its operation. Raises `UsageError` without a load, and `EnvironmentFault`
        for one that failed.
        """
        with self._lock:
            self._on().stop()

    def close(self) -> None:
        """Stop what is on."""
        with contextlib.suppress(HarnessError):
            self.stop()

    def _on(self) -> "_Running":
        if self._running is None or not self._running.is_on:
            raise UsageError("no load is running: start one")
        return self._running


class _Running:
    """One load from its start on. Implements `users_process.Listener`."""

    def __init__(self, cluster: AnyCluster, settings: LoadSettings) -> None:
        self._cluster = cluster
        self.settings = settings
        self.reported = _NOTHING
        self.error = ""
        """Why it failed; empty for one that did not."""
        self._hand = LoadHand()
        self._fault: HarnessError | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    @property
    def is_on(self) -> bool:
        return self._thread.is_alive()

    def set_rate(self, rate: float) -> None:
        self._hand.set_rate(rate)
        self.settings = replace(self.settings, rate=rate)

    def stop(self) -> None:
        self._hand.end()
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def ready(self) -> None:
        """The page sees that by the users."""

    def progress(self, progress: Progress) -> None:
        """For the page, at its next look."""
        self.reported = progress

    def _run(self) -> None:
        try:
            statistics = run_users(self.settings, self._cluster.folder / LOG_FILE, self, self._hand)
            require_tasks_passed(self._cluster.run, tuple(statistics.raised))
            # The run has what the members wrote so far, as after `upheaval load`.
            self._cluster.collect()
        except (HarnessError, OSError) as error:
            self.error = " ".join(str(error).split())
            self._fault = error if isinstance(error, HarnessError) else EnvironmentFault(self.error)


def _check_rate(rate: float) -> None:
    if not math.isfinite(rate) or rate < 0:
        raise UsageError(f"rate: expected operations a second, at least 0, got {rate}")
