"""`python -m upheaval_node.tool CLUSTER_DIR COMMAND [ARGS] [--json] [--timeout SECONDS] [--archive DIR]`.

Exit status as of Aeron's ClusterTool: 0, 255 for what it calls -1, 1 for what it ends by an exception and for a node
that does not lead; errors are one line. `--json` prints one object with the same content instead of the text.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from upheaval_node.errors import NodeError
from upheaval_node.files import layout
from upheaval_node.tool.answer import FAILURE, FAULT, Answer
from upheaval_node.tool.commands import COMMANDS, help_lines, run
from upheaval_node.tool.disk import DiskNode, cluster_dir_of, exists

MAX_TIMEOUT_S = 100_000.0


@dataclass(slots=True)
class Options:
    """The command line. `problem` is the reason why it is invalid."""

    words: list[str] = field(default_factory=list)
    as_json: bool = False
    timeout_ms: int = 0
    archive: str | None = None
    wants_help: bool = False
    problem: str = ""


def parse(arguments: Sequence[str]) -> Options:
    """Parse the command line. Options may be anywhere; every argument that is not an option is a word."""
    options = Options()
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--json":
            options.as_json = True
        elif word in ("-h", "--help"):
            options.wants_help = True
        elif word in ("--timeout", "--archive"):
            if not left:
                options.problem = f"{word} needs a value"
            elif word == "--archive":
                options.archive = left.pop(0)
            else:
                _set_timeout(options, left.pop(0))
        elif word.startswith("--"):
            options.problem = f"unknown option {word}"
        else:
            options.words.append(word)
    return options


def _set_timeout(options: Options, text: str) -> None:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if 0 <= seconds <= MAX_TIMEOUT_S:
        options.timeout_ms = round(seconds * 1000)
    else:
        options.problem = f"--timeout {text[:20]}: give seconds"


def execute(options: Options) -> Answer:
    """Run a command on a folder of this machine. Raises `NodeError`."""
    if options.wants_help:
        return Answer(help_lines(), {"commands": {name: command.help for name, command in COMMANDS.items()}})
    if len(options.words) < 2:
        return Answer(help_lines(), {"reason": "usage"}, FAILURE)
    folder, name, *rest = options.words
    if not exists(folder):
        reason = f"ERR: cluster directory not found: {Path.cwd() / folder.replace(chr(0), '?')}"
        return Answer([reason, *help_lines()], {"reason": reason}, FAILURE)
    with DiskNode(cluster_dir_of(folder), options.archive) as node:
        return run(node, name, rest, options.timeout_ms)


def node_folder(options: Options) -> Path:
    """The folder of a node, given the cluster's folder or the node's own."""
    folder = Path(options.words[0]).absolute()
    return folder.parent if folder.name == layout.CLUSTER_DIRECTORY else folder


def show(options: Options, answer: Answer, program: str) -> None:
    """Print an answer. A failure goes to the standard error as one line."""
    error = answer.values.get("error")
    if error is not None:
        print(f"{program}: {error}", file=sys.stderr)
    if options.as_json:
        head = {"command": options.words[1] if len(options.words) > 1 else "", "exit_status": answer.status & 0xFF}
        print(json.dumps({**head, "text": list(answer.lines), **answer.values}))
    else:
        for line in answer.lines:
            print(line)
    sys.stdout.flush()


def finish(options: Options, work: Callable[[], Answer], program: str) -> int:
    """Do the work and print its answer or error. Returns the exit status."""
    try:
        if options.problem:
            raise NodeError(options.problem)
        answer = work()
    except NodeError as error:
        answer = Answer([], {"error": " ".join(str(error).split())}, FAULT)
    try:
        show(options, answer, program)
    except BrokenPipeError:
        # The reader has closed the pipe. The remaining output must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return answer.status & 0xFF


def main(arguments: Sequence[str] | None = None, program: str = "upheaval-tool") -> int:
    """Run one command. Returns the exit status."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    return finish(options, lambda: execute(options), program)


if __name__ == "__main__":
    sys.exit(main())
