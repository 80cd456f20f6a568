"""`Backup`: the backup node of a test's cluster, on any runtime. It does not exist before `start`."""

from collections.abc import Callable
from pathlib import Path

from upheaval.cluster import ACTION_TIMEOUT_S, companion_control
from upheaval.records import BACKUP_NAME, CompanionConfig, CompanionStatus
from upheaval.testing.backend import Backend


class Backup:
    """Starts, stops and kills the backup node. Each action is proved and recorded in `controls.jsonl`.

    An action without effect in time raises `UnknownOutcome`. An action that makes no sense, such as a kill of a backup
    that does not run, raises `UsageError`.
    """

    def __init__(self, running: Callable[[], Backend], name: str = BACKUP_NAME) -> None:
        """`running` returns the backend, and raises once the cluster has ended."""
        self._running = running
        self._backend = running()
        self._name = name

    @property
    def folder(self) -> Path:
        """The folder of its files, for `restore_from`. Use it once the cluster is down, or, with real members, once it
        is stopped.
        """
        return self._backend.run.path / self._name

    def start(self, source: str = "ANY", replay_start: str = "BEGINNING", timeout_s: float = ACTION_TIMEOUT_S) -> None:
        """Start it for the first time, or again with the files that it has.

        `source`: which member it copies from, `ANY`, `LEADER` or `FOLLOWER`. `replay_start`: where a new copy of the
        log begins, `BEGINNING` or `LATEST_SNAPSHOT`.
        """
        config = CompanionConfig(self._name, source, replay_start)
        companion_control.start(self._running().target, config, timeout_s)

    def stop(self) -> None:
        """Stop it in order."""
        companion_control.end(self._backend.target, self._name, companion_control.STOP)

    def kill(self) -> None:
        """Kill it."""
        companion_control.end(self._backend.target, self._name, companion_control.KILL)

    def status(self) -> CompanionStatus:
        """Its own status. Raises `UsageError` if it was never started."""
        return self._backend.target.companion(self._name).status()

    def wait_until_caught_up(self, timeout_s: float = ACTION_TIMEOUT_S) -> int:
        """Wait until it has all that is committed now. Returns its position."""
        return companion_control.wait_until_caught_up(self._backend.target, self._name, timeout_s).live_log_position
