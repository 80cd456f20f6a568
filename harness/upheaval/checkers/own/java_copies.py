"""Runs copies of a service in Java over a log, in a process of their own: `images/aeron`, `upheaval.replay.Replay`.

What the process runs under is a set of conditions; what comes of each entry of the log are effects. This module
compares nothing and knows nothing of verdicts.
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
from upheaval.aeron_programs import java_line, member_classes
from upheaval.checkers.own.effects import Effects
from upheaval.checkers.states.replay import LoggedMessage
from upheaval.errors import HarnessError
from upheaval.records.class_path import class_name, class_path_of

PROGRAM: Final = "upheaval.replay.Replay"
TIMEOUT_S: Final = 180.0
_REASON_MAX: Final = 200
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qi")
_COPY: Final = struct.Struct(">ii??")


class CannotReplayJava(HarnessError):
    """The copies did not read the log, and why."""


class Condition(StrEnum):
    """What a process has otherwise than the usual one. The value is what a finding names."""

    HASH_CODES = "identity hash codes"
    CLOCK = "clock"
    TIME_ZONE = "time zone"
    LOCALE = "locale and charset"
    MACHINE = "heap and number of processors"


_USUAL: Final[Mapping[Condition, tuple[str, ...]]] = {
    # The same for all objects: the only numbers that two processes have in common.
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
    """What a copy does: where it begins, and as which member it reads the log.

    `begin` is the number of entries before its first one. It begins with the snapshot that the first copy took there,
    at 0 without any.
    """

    begin: int = 0
    member_id: int = 0
    is_leader: bool = False
    does_background_work: bool = False


@dataclass(frozen=True, slots=True)
class TakenState:
    """What a copy wrote as a snapshot after that many entries; `messages` are None where they are long."""

    entries: int
    position: int
    digest: str
    messages: tuple[bytes, ...] | None
    is_asked: bool
    """By the log."""


@dataclass(slots=True)
class CopyTrail:
    """All that one copy did: effects by index of the entry, -1 before the first one of the log."""

    plan: Plan
    effects: dict[int, Effects] = field(default_factory=dict)
    states: list[TakenState] = field(default_factory=list)
    ended: str | None = None
    """Why it did not read all of the log; empty where it did, None where its process ended before."""

    def effects_of(self, count: int) -> list[Effects]:
        """At each entry from its first one on, of a log of `count` entries."""
        nothing = Effects()
        return [self.effects.get(index, nothing) for index in range(self.plan.begin, count)]


@dataclass(frozen=True, slots=True)
class JavaService:
    """Whose copies they are: `CLASSPATH:Class` in the folder `source`, and the version of Aeron."""

    service: str
    source: str
    version: str

    def play(
        self,
        log: Sequence[LoggedMessage],
        plans: Sequence[Plan],
        cuts: Collection[int] = (),
        changed: Collection[Condition] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> list[CopyTrail]:
        """The copies, in the order of `plans`; the first one takes snapshots after each of the numbers in `cuts`.

        Raises `CannotReplayJava` where they cannot be run, or did not end in time.
        """
        trails = effects_by_copy(self.run(PROGRAM, _orders(log, plans, cuts), changed, timeout_s), plans)
        if any(trail.ended is None for trail in trails):
            raise CannotReplayJava("its code cannot be run here: it ends the process")
        return trails

    def run(
        self, program: str, orders: bytes, changed: Collection[Condition] = (), timeout_s: float = TIMEOUT_S
    ) -> bytes:
        """What one of our programs that load the class says to those orders. Raises `CannotReplayJava`."""
        try:
            done = subprocess.run(
                self._command(program, changed),
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

    def _command(self, program: str, changed: Collection[Condition]) -> list[str]:
        options = [
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            *(option for each in Condition for option in (_CHANGED if each in changed else _USUAL)[each]),
        ]
        ours = [str(jar(self.version)), str(member_classes(self.version))]
        class_path = [str(Path(each).absolute()) for each in class_path_of(self.service, [self.source])]
        return java_line(ours, program, class_name(self.service), *class_path, options=options)


def _orders(log: Sequence[LoggedMessage], plans: Sequence[Plan], cuts: Collection[int]) -> bytes:
    """As `Replay.java` reads them."""
    parts = [_COUNT.pack(len(log))]
    for entry in log:
        parts += [_ENTRY.pack(entry.position, len(entry.content)), bytes(entry.content)]
    parts += [_COUNT.pack(len(cuts)), *(_COUNT.pack(cut) for cut in sorted(cuts)), _COUNT.pack(len(plans))]
    parts += [_COPY.pack(each.begin, each.member_id, each.is_leader, each.does_background_work) for each in plans]
    return b"".join(parts)


def effects_by_copy(output: bytes, plans: Sequence[Plan]) -> list[CopyTrail]:
    """A line that broke off belongs to a process that ended."""
    trails = [CopyTrail(plan) for plan in plans]
    for line in output.splitlines():
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
    messages = None if encoded is None else tuple(b64decode(each) for each in encoded)
    return TakenState(fields["entries"], fields["position"], fields["digest"], messages, fields["asked"])


def _effects(fields: Mapping[str, Any]) -> Effects:
    return Effects(
        tuple((session, b64decode(message)) for session, message in fields.get("egress", ())),
        tuple(b64decode(message) for message in fields.get("offers", ())),
        tuple((timer, deadline) for timer, deadline in fields.get("timers", ())),
        tuple(fields.get("closed", ())),
        fields.get("raised", ""),
    )
