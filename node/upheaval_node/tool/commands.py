"""The table of commands and the help, as in Aeron 1.51.0's ClusterTool."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval_node.tool import admin_commands, marks, recording_logs, snapshots
from upheaval_node.tool.answer import FAILURE, Answer
from upheaval_node.tool.node import Node

USAGE: Final = "Usage: <cluster-dir> <command> [options]"


@dataclass(frozen=True, slots=True)
class Command:
    """`run(node, arguments, timeout_ms)`. `least` is the number of arguments that it needs; more are ignored.

    `changes` marks commands that must not be repeated while it is unknown whether they were done.
    """

    help: str
    run: Callable[[Node, Sequence[str], int], Answer]
    least: int = 0
    changes: bool = False


def _plain(run: Callable[[Node, Sequence[str]], Answer]) -> Callable[[Node, Sequence[str], int], Answer]:
    return lambda node, arguments, _: run(node, arguments)


def _order(word: str) -> Callable[[Node, Sequence[str], int], Answer]:
    return lambda node, _, timeout_ms: admin_commands.give(node, word, timeout_ms)


COMMANDS: Final = {
    "validate-recording-log": Command(
        "triggers the cluster node to validate its recording log against the archive.",
        _order("validate-recording-log"),
        changes=True,
    ),
    "abort": Command("stops the cluster without a snapshot.", _order("abort"), changes=True),
    "shutdown": Command("initiates an orderly stop of the cluster with a snapshot.", _order("shutdown"), changes=True),
    "resume": Command("resumes appending to the log.", _order("resume"), changes=True),
    "sort-recording-log": Command(
        "reorders entries in the recording log to match the order in memory.",
        _plain(recording_logs.sort_recording_log),
        changes=True,
    ),
    "recording-log": Command("prints recording log of cluster component.", _plain(recording_logs.recording_log)),
    "pid": Command("prints PID of cluster component.", _plain(marks.pid)),
    "describe": Command("prints out all descriptors in the mark file.", _plain(marks.describe)),
    "seed-recording-log-from-snapshot": Command(
        "creates a new recording log based on the latest valid snapshot.",
        _plain(recording_logs.seed_recording_log_from_snapshot),
        changes=True,
    ),
    "list-members": Command(
        "prints leader memberId and active members.",
        lambda node, _, timeout_ms: admin_commands.list_members(node, timeout_ms),
    ),
    "is-leader": Command(
        "returns zero if the cluster node is leader, non-zero if not.", _plain(admin_commands.is_leader)
    ),
    "recovery-plan": Command(
        "[service count] prints recovery plan of cluster component.", _plain(recording_logs.recovery_plan), least=1
    ),
    "describe-latest-cm-snapshot": Command(
        "prints the contents of the latest valid consensus module snapshot.",
        _plain(snapshots.describe_latest_snapshot),
    ),
    "snapshot": Command("triggers a snapshot on the leader.", _order("snapshot"), changes=True),
    "invalidate-latest-snapshot": Command(
        "marks the latest snapshot as a invalid so the previous is loaded.",
        _plain(recording_logs.invalidate_latest_snapshot),
        changes=True,
    ),
    "suspend": Command("suspends appending to the log.", _order("suspend"), changes=True),
    "backup-query": Command("[delay] get, or set, time of next backup query.", _plain(admin_commands.backup_query)),
    "errors": Command("prints Aeron and cluster component error logs.", _plain(marks.errors)),
}
"""In the order of Aeron's help."""


def help_lines() -> list[str]:
    """The help as Aeron's ClusterTool prints it."""
    width = max(map(len, COMMANDS)) + 1
    return [USAGE, *(f"{name:>{width}}: {command.help}" for name, command in COMMANDS.items())]


def run(node: Node, name: str, arguments: Sequence[str], timeout_ms: int = 0) -> Answer:
    """Run a command. An unknown command, or missing arguments, are answered with the help.

    Raises `NodeError` with one line when the command cannot read what it needs.
    """
    command = COMMANDS.get(name)
    if command is None:
        return Answer([f"Unknown command: {name}", *help_lines()], {"reason": f"unknown command: {name}"}, FAILURE)
    if len(arguments) < command.least:
        return Answer(help_lines(), {"reason": f"{name} needs an argument"}, FAILURE)
    return command.run(node, arguments, timeout_ms)
