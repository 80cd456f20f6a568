"""`upheaval tool` for members of Aeron: Aeron's own ClusterTool does what has to ask a running member.

Everything else is read from files and counters, which have the format of our node's. Starts no member.
"""

import re
import subprocess
from pathlib import Path
from typing import Final

from upheaval.aeron_jars import without_notes
from upheaval.aeron_programs import OWN_OUTPUT, java_line
from upheaval_chaos.programs import run_program
from upheaval_node.protocol.cluster_mark_messages import ClusterComponentType
from upheaval_node.tool.__main__ import Options
from upheaval_node.tool.admin_commands import ADMIN_COMMANDS, QUERY_TIMEOUT_MS
from upheaval_node.tool.answer import FAULT, Answer, ToolFault, Value
from upheaval_node.tool.disk import DiskNode, cluster_dir_of
from upheaval_node.tool.marks import find_mark

LIST_MEMBERS: Final = "list-members"
ASKING: Final = (LIST_MEMBERS, *ADMIN_COMMANDS)
"""The commands that need an answer of the consensus module."""
_PROGRAM: Final = "io.aeron.cluster.ClusterTool"
_START_MS: Final = 30_000
"""The time in ms that Java may take to begin and to end."""
_FIELD: Final = re.compile(r"(\w+)=('[^']*'|[^,{}\[\]]+)")
_INTEGER: Final = re.compile(r"-?\d+", re.ASCII)
_WORDS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}


def is_asking(options: Options) -> bool:
    """Whether the command is one of `ASKING`, is valid, and is for a member."""
    if options.wants_help or len(options.words) < 2 or options.words[1] not in ASKING:
        return False
    with DiskNode(cluster_dir_of(options.words[0])) as node:
        mark = find_mark(node)
    return mark is not None and mark.header.component_type is ClusterComponentType.CONSENSUS_MODULE


def ask(options: Options, aeron: Path) -> Answer:
    """The answer of ClusterTool to one of `ASKING`. Raises `NodeError` when it ends by an exception or does not end.

    `aeron` is the jar with ClusterTool.
    """
    folder, *words = options.words
    timeout_ms = max(QUERY_TIMEOUT_MS, options.timeout_ms)
    waits_ms = ADMIN_COMMANDS[words[0]].wait_ms if words[0] in ADMIN_COMMANDS else 0
    timeout = f"-Daeron.cluster.tool.timeout={timeout_ms}ms"
    command = java_line([str(aeron)], _PROGRAM, cluster_dir_of(folder), *words, options=[timeout, *OWN_OUTPUT])
    limit_s = (timeout_ms + waits_ms + _START_MS) / 1000
    try:
        done = run_program(command, limit_s=limit_s)
    except subprocess.TimeoutExpired:
        raise ToolFault(f"Aeron's ClusterTool does not end within {limit_s:g} s") from None
    lines = done.stdout.splitlines()
    if done.returncode == FAULT:
        raised = next(iter(without_notes(done.stderr)), "it gave no reason")
        raise ToolFault(f"Aeron's ClusterTool: {raised}")
    if done.returncode:
        return Answer(lines, {"reason": lines[0] if lines else ""}, done.returncode)
    is_read = options.as_json and words[0] == LIST_MEMBERS and lines
    return Answer(lines, _values(lines[0]) if is_read else {})


def _values(line: str) -> dict[str, Value]:
    head, *members = line.split("ClusterMember{")
    return {**_fields(head), "activeMembers": [_fields(member) for member in members]}


def _fields(text: str) -> dict[str, Value]:
    return {name: _value(word) for name, word in _FIELD.findall(text)}


def _value(word: str) -> Value:
    if word.startswith("'"):
        return word[1:-1]
    return int(word) if _INTEGER.fullmatch(word) else _WORDS.get(word, word)
