"""Starts, stops and kills companions, with proof, and waits until one has caught up.

The records are in `controls.jsonl` beside the admin commands of an operator. This module knows no runtime.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from upheaval.cluster.control import Controlled, write_down
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import (
    CompanionConfig,
    CompanionStatus,
    ControlRecord,
)
from upheaval.system import serving_leader

START: Final = "start"
STOP: Final = "stop"
KILL: Final = "kill"
ACTIONS: Final = (START, STOP, KILL)
ACTION_TIMEOUT_S: Final = 30.0


class Companion(Protocol):
    """A backup or standby node of one runtime."""

    @property
    def config(self) -> CompanionConfig:
        """Its configuration."""

    def status(self) -> CompanionStatus:
        """Its current status, by its own account."""

    def incarnation(self) -> frozenset[str]:
        """Names of its running processes, which are never reused; empty when none runs."""

    def start(self) -> None:
        """Start it, unless it runs. Returns at once."""

    def kill(self) -> None:
        """Send SIGKILL. Returns when it has ended."""

    def stop(self) -> None:
        """Stop it in order, and wait for its end."""


class Keeper(Controlled, Protocol):
    """A cluster that can have companions."""

    def companion(self, name: str) -> Companion:
        """The companion of that name. Raises `UsageError` for one that was never started here."""

    def add_companion(self, config: CompanionConfig) -> Companion:
        """A companion to start. One that exists keeps its files."""


def start(keeper: Keeper, config: CompanionConfig, timeout_s: float = ACTION_TIMEOUT_S) -> ControlRecord:
    """Start a companion, new or again, and wait for its first status. Raises `UsageError` when it runs."""
    options = "" if config.source == CompanionConfig(config.name).source else f" source={config.source}"
    companion = keeper.add_companion(config)
    if companion.incarnation():
        raise UsageError(f"{config.name} is running already")

    def act() -> str:
        companion.start()
        keeper.wait_until(lambda: companion.status().state is not None, timeout_s, f"sign of life of {config.name}")
        return f"{config.name} runs: {_shown(companion.incarnation())}"

    return write_down(keeper, _statement(config, START) + options, act)


def end(keeper: Keeper, name: str, action: str) -> ControlRecord:
    """End a companion, in order (`STOP`) or by SIGKILL (`KILL`). Raises `UsageError` when it does not run."""
    companion = keeper.companion(name)
    names = companion.incarnation()
    if not names:
        raise UsageError(f"{name} is not running: cannot {action} it")

    def act() -> str:
        if action == KILL:
            companion.kill()
        else:
            companion.stop()
        left = names & companion.incarnation()
        if left:
            raise UnknownOutcome(f"{_shown(left)} did not end")
        return f"{'gone' if action == KILL else 'ended by itself'}: {_shown(names)}"

    return write_down(keeper, _statement(companion.config, action), act)


def wait_until_caught_up(keeper: Keeper, name: str, timeout_s: float = ACTION_TIMEOUT_S) -> CompanionStatus:
    """Wait until a companion has the log up to the current commit position. Raises `UnknownOutcome`."""
    companion = keeper.companion(name)
    position = -1

    def leads() -> bool:
        nonlocal position
        statuses = keeper.status()
        leader = serving_leader(statuses)
        position = -1 if leader is None else statuses[leader].commit_position
        return position >= 0

    keeper.wait_until(leads, timeout_s, "leader that says what is committed")
    keeper.wait_until(
        lambda: companion.status().has_reached(position), timeout_s, f"{name} with the log up to position {position}"
    )
    return companion.status()


def _statement(config: CompanionConfig, action: str) -> str:
    """The action as a line of a scenario."""
    which = "" if config.name == f"{config.kind}-0" else f" name={config.name}"
    return f"{config.kind} {action}{which}"


def _shown(names: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(names))
