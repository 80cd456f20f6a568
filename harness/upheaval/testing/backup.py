"""`Backup`: the backup of a test's cluster, on any runtime. Nothing of it is there until `start`."""

from pathlib import Path

from upheaval.cluster import ACTION_TIMEOUT_S, companion_control
from upheaval.records import BACKUP_NAME, CompanionConfig, CompanionStatus
from upheaval.testing.backend import Backend


class Backup:
    """Each start, stop and kill is proved and recorded in `controls.jsonl`. One that has no effect in time raises
    `UnknownOutcome`; one that makes no sense, such as a kill of what does not run, `UsageError`.
    """

    def __init__(self, backend: Backend, name: str = BACKUP_NAME) -> None:
        self._backend = backend
        self._name = name

    @property
    def folder(self) -> Path:
        """Where its files are when the cluster is down: what `restore_from` takes. Of real ones also once stopped."""
        return self._backend.run.path / self._name

    def start(self, source: str = "ANY", replay_start: str = "BEGINNING", timeout_s: float = ACTION_TIMEOUT_S) -> None:
        """Start it, new or again over what it has. `source`: ANY, LEADER or FOLLOWER, whom it copies from.

        `replay_start`: where the copy of the log begins that a new one makes, BEGINNING or LATEST_SNAPSHOT.
        """
        companion_control.start(self._backend.target, CompanionConfig(self._name, source, replay_start), timeout_s)

    def stop(self) -> None:
        """Let it end in an orderly way."""
        companion_control.end(self._backend.target, self._name, companion_control.STOP)

    def kill(self) -> None:
        """End it without any notice."""
        companion_control.end(self._backend.target, self._name, companion_control.KILL)

    def status(self) -> CompanionStatus:
        """What it says about itself. Raises `UsageError` when it was never started."""
        return self._backend.target.companion(self._name).status()

    def wait_until_caught_up(self, timeout_s: float = ACTION_TIMEOUT_S) -> int:
        """Wait until it has the log up to where it is committed now; returns up to where it has it."""
        return companion_control.wait_until_caught_up(self._backend.target, self._name, timeout_s).live_log_position
