"""Runs copies of a Java service over a log, in a separate process: `images/aeron`, `upheaval.replay.Replay`.

The process runs under a set of conditions and returns the effects at each log entry. This module compares nothing and
knows nothing of verdicts.
"""

import json
import struct
import subprocess
from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from upheaval.aeron_jars import jar
from upheaval.aeron_programs import OWN_OUTPUT, java_line, member_classes
from upheaval.checkers.own.effects import Effects
from upheaval.checkers.states.replay import LoggedMessage
from upheaval.errors import HarnessError
from upheaval.records import owned_folder
from upheaval.records.class_path import class_name, class_path_of

PROGRAM: Final = "upheaval.replay.Replay"
TIMEOUT_S: Final = 180.0
_REASON_MAX: Final = 200
_LINE: Final = b'{"copy":'
"""How each line of a copy begins."""
_OF_SERVICE: Final = ("-D", "-ea", "-enableassertions", "-da", "-disableassertions", "--add-", "--enable-")
"""The beginnings of a member's options that its service notices, and not only by memory and speed."""
_OF_MEMBER: Final = ("-Daeron.", "-Dcom.sun.management.", "-Dupheaval.")
"""The beginnings of properties of a member that a copy has not: directories and ports, for example."""
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qi")
_COPY: Final = struct.Struct(">ii??")


class CannotReplayJava(HarnessError):
    """The copies did not read the log. The message says why."""


class Condition(StrEnum):
    """A condition that can be changed for a process. Findings name its value."""

    HASH_CODES = "identity hash codes"
    CLOCK = "clock"
    TIME_ZONE = "time zone"
    LOCALE = "locale and charset"
    MACHINE = "heap and number of processors"


_USUAL: Final[Mapping[Condition, tuple[str, ...]]] = {
    # The same hash code for all objects: no other numbers are equal in two processes.
    Condition.HASH_CODES: ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"),
    Condition.CLOCK: (),
    Condition.TIME_ZONE: ("-Duser.timezone=UTC",),
    Condition.LOCALE: ("-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8"),
    Condition.MACHINE: ("-Xmx512m", "-XX:ActiveProcessorCount=2"),
}
_CHANGED: Final[Mapping[Condition, tuple[str, ...]]] = {
    Condition.HASH_CODES: ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=0"),
    Condition.CLOCK: (f"-Dupheaval.shift.seconds={400 * 86_400 + 12_345}",),
    Condition.TIME_ZONE: ("-Duser.timezone=Asia/Kathmandu",),
    Condition.LOCALE: ("-Duser.language=tr", "-Duser.country=TR", "-Dfile.encoding=ISO-8859-1"),
    Condition.MACHINE: ("-Xmx700m", "-XX:ActiveProcessorCount=5"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a copy does: where it starts, and the member whose place it takes.

    `begin` is the number of entries before its first one. The copy starts from the snapshot that the first copy took
    there; at 0 it starts without one.
    """

    begin: int = 0
    member_id: int = 0
    is_leader: bool = False
    does_background_work: bool = False


@dataclass(frozen=True, slots=True)
class TakenState:
    """A snapshot that a copy took after `entries` entries. `messages` is None if they are long."""

    entries: int
    position: int
    digest: str
    messages: tuple[bytes, ...] | None
    is_asked: bool
    """Whether the log asks for it."""


@dataclass(slots=True)
class CopyTrail:
    """All that one copy did. `effects` are by entry index; -1 is the time before the first entry."""

    plan: Plan
    effects: dict[int, Effects] = field(default_factory=dict)
    states: list[TakenState] = field(default_factory=list)
    ended: str | None = None
    """Why it did not read the whole log; empty if it did, None if its process ended before."""

    def effects_of(self, count: int) -> list[Effects]:
        """The effects at each entry from its first one on, in a log of `count` entries."""
        nothing = Effects()
        return [self.effects.get(index, nothing) for index in range(self.plan.begin, count)]


@dataclass(frozen=True, slots=True)
class JavaService:
    """The service to copy: `CLASSPATH:Class` in the folder `source`, Aeron's version, and the members' JVM options."""

    service: str
    source: str
    version: str
    options: Sequence[str] = ()

    def play(
        self,
        log: Sequence[LoggedMessage],
        plans: Sequence[Plan],
        cuts: Collection[int] = (),
        changed: Collection[Condition] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> list[CopyTrail]:
        """Run the copies of `plans`, in that order. The first one takes a snapshot after each number of entries in
        `cuts`.

        Raises `CannotReplayJava` if they cannot be run or exceed the time-out.
        """
        trails = effects_by_copy(self.run(PROGRAM, _orders(log, plans, cuts), changed, timeout_s), plans)
        if any(trail.ended is None for trail in trails):
            raise CannotReplayJava("its code cannot be run here: it ends the process")
        return trails

    def run(
        self, program: str, orders: bytes, changed: Collection[Condition] = (), timeout_s: float = TIMEOUT_S
    ) -> bytes:
        """The output of one of our Java programs for these orders. Raises `CannotReplayJava`."""
        try:
            # A process that is killed, or that its service ends, leaves the directory of its media driver.
            with owned_folder("replay", in_memory=True) as place:
                done = subprocess.run(
                    self._command(program, changed, place / "aeron"),
                    input=orders,
                    capture_output=True,
                    timeout=timeout_s,
                    cwd=self.source,
                    check=False,
                )
        except subprocess.TimeoutExpired:
            raise CannotReplayJava(f"its code did not end within {timeout_s:g} s") from None
        except HarnessError as error:
            raise CannotReplayJava(str(error)) from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").splitlines()
            last = next(reversed(lines), f"status {done.returncode}")
            raise CannotReplayJava(f"its code cannot be run here: {last[:_REASON_MAX]}")
        return done.stdout

    def _command(self, program: str, changed: Collection[Condition], driver: Path) -> list[str]:
        theirs = (option for option in self.options if option.startswith(_OF_SERVICE))
        options = [
            # The conditions come later, and so count.
            *(option for option in theirs if not option.startswith(_OF_MEMBER)),
            f"-Daeron.dir={driver}",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            *(
                option
                for condition in Condition
                for option in (_CHANGED if condition in changed else _USUAL)[condition]
            ),
            *OWN_OUTPUT,
        ]
        ours = [str(jar(self.version)), str(member_classes(self.version))]
        class_path = [str(Path(path).absolute()) for path in class_path_of(self.service, [self.source])]
        return java_line(ours, program, class_name(self.service), *class_path, options=options)


def _orders(log: Sequence[LoggedMessage], plans: Sequence[Plan], cuts: Collection[int]) -> bytes:
    """Encode the orders as `Replay.java` reads them."""
    parts = [_COUNT.pack(len(log))]
    for entry in log:
        parts += [_ENTRY.pack(entry.position, len(entry.content)), bytes(entry.content)]
    parts += [_COUNT.pack(len(cuts)), *(_COUNT.pack(cut) for cut in sorted(cuts)), _COUNT.pack(len(plans))]
    parts += [_COPY.pack(plan.begin, plan.member_id, plan.is_leader, plan.does_background_work) for plan in plans]
    return b"".join(parts)


def effects_by_copy(output: bytes, plans: Sequence[Plan]) -> list[CopyTrail]:
    """Parse the output of the copies. It may end in a truncated line if the process ended early.

    Lines of the virtual machine, or of code that writes to the process's standard output, are passed over.
    """
    trails = [CopyTrail(plan) for plan in plans]
    for line in output.splitlines():
        if _LINE not in line:
            continue
        try:
            fields = json.loads(line)
        except ValueError:
            break
        trail = trails[fields["copy"]]
        if "ended" in fields:
            trail.ended = fields["ended"]
        elif "snapshot" in fields:
            trail.states.append(_state(fields))
        else:
            trail.effects[fields["entry"]] = _effects(fields)
    return trails


def _state(fields: Mapping[str, Any]) -> TakenState:
    encoded = fields["snapshot"]
    messages = None if encoded is None else tuple(b64decode(message) for message in encoded)
    return TakenState(fields["entries"], fields["position"], fields["digest"], messages, fields["asked"])


def _effects(fields: Mapping[str, Any]) -> Effects:
    return Effects(
        tuple((session, b64decode(message)) for session, message in fields.get("egress", ())),
        tuple(b64decode(message) for message in fields.get("offers", ())),
        tuple((timer, deadline) for timer, deadline in fields.get("timers", ())),
        tuple(fields.get("closed", ())),
        fields.get("raised", ""),
    )
