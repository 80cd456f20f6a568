"""Write what the tool says into docs/tool.md: on the folder of a member that is down, and on a simulated one that runs.

python tools/tool_examples.py writes the parts between the marks; a test tells whether they are current.
"""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from upheaval.system import ClusterSpec
from upheaval_node.types import S

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tool.md"
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))

from support.tool_folders import make_node  # noqa: E402
from upheaval.runtimes.simulated.cluster import SimulatedCluster  # noqa: E402
from upheaval.runtimes.simulated.tool import run_tool  # noqa: E402
from upheaval.runtimes.simulated.world import World  # noqa: E402
from upheaval_node.errors import NodeError  # noqa: E402
from upheaval_node.settings import profile_settings  # noqa: E402
from upheaval_node.tool.__main__ import execute, parse  # noqa: E402
from upheaval_node.tool.answer import FAULT, Answer  # noqa: E402

END = "<!-- end of examples -->"
FOLDER = (
    "pid",
    "describe",
    "recording-log",
    "recovery-plan 1",
    "describe-latest-cm-snapshot",
    "errors",
    "list-members",
    "is-leader",
    "backup-query",
    "sort-recording-log",
    "invalidate-latest-snapshot",
    "seed-recording-log-from-snapshot",
)
RUNNING = (
    "is-leader",
    "list-members",
    "snapshot",
    "suspend",
    "snapshot",
    "resume",
    "validate-recording-log",
    "seed-recording-log-from-snapshot",
    "abort",
)

Tool = Callable[[Sequence[str]], Answer]


def folder_examples() -> str:
    """Every line of time is that of 2026-01-01, 12:00."""
    with tempfile.TemporaryDirectory() as place, _in_folder(place):
        make_node(Path("member-2"))
        return _shown("member-2", FOLDER, lambda words: execute(parse(["member-2", *words])))


def running_examples() -> str:
    """One member in virtual time, which leads itself."""
    cluster = SimulatedCluster(World(1), ClusterSpec(1), settings=profile_settings("test"))
    cluster.start_all()
    cluster.wait_until_leader()
    member = cluster.members[0]

    def tool(words: Sequence[str]) -> Answer:
        # As long as an operator takes to type the next command.
        cluster.world.run_for(S)
        return run_tool(cluster.world, member, words[0], *words[1:])

    return _shown("RUN/member-0", RUNNING, tool)


def _shown(place: str, commands: Sequence[str], tool: Tool) -> str:
    lines = ["```console"]
    for command in commands:
        lines.append(f"$ upheaval tool {place} {command}")
        try:
            answer = tool(command.split())
        except NodeError as error:
            answer = Answer([f"upheaval tool: {error}"], {}, FAULT)
        lines += [_timeless(line).rstrip() for line in answer.lines]
        if answer.status:
            lines.append(f"[exit status {answer.status & 0xFF}]")
    return "\n".join([*lines, "```"])


def _timeless(line: str) -> str:
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-01-01 12:00:00", line)
    line = re.sub(r"^(Type: \w+) \d\d:\d\d:\d\d", r"\1 12:00:00", line)
    return re.sub(r"(currentTimeNs|timeOfLastAppendPositionNs|timestamp)=\d{5,}", r"\1=1700000000000", line)


@contextlib.contextmanager
def _in_folder(place: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


def current(text: str) -> str:
    """The page with its examples as the tool says them now."""
    for name, examples in (("folder", folder_examples), ("running", running_examples)):
        begin = f"<!-- examples: {name} -->"
        before, found, rest = text.partition(begin)
        _, end, after = rest.partition(END)
        if not found or not end:
            raise SystemExit(f"{PAGE} has no marks for the examples {name!r}")
        text = f"{before}{begin}\n\n{examples()}\n\n{END}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
