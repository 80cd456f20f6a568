"""The run folder, which holds everything that a run leaves behind, and its manifest.

The format is documented in docs/run-folder.md. This module knows nothing of live clusters or of checkers.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.records import jsonfields
from upheaval.records.client_stalls import STALLS_NAME, ClientStall, parse_client_stall
from upheaval.records.connect_attempts import ATTEMPTS_NAME, ConnectAttempt, parse_connect_attempt
from upheaval.records.folder_lock import locked
from upheaval.records.history import HistoryWriter, Operation, read_history
from upheaval.records.jsonfields import FieldError, FilePath, Json, OneOf, T, Within
from upheaval.records.session_ends import SessionEnd, parse_session_end
from upheaval.records.strays import STRAYS_NAME, Stray, parse_stray
from upheaval.records.trace_events import TraceEvent, read_trace_events
from upheaval_chaos.record import FaultRecord, Proof

FORMAT_VERSION = 2
SESSIONS_NAME: Final = "sessions.jsonl"
CONSENSUS_NAME: Final = "consensus.jsonl"
SCENARIO_NAME: Final = "run.scenario"
RECORD_FILES: Final = ("history.jsonl", SESSIONS_NAME, STRAYS_NAME, ATTEMPTS_NAME, "faults.jsonl", "controls.jsonl")
"""The files that the harness appends to during a run, whatever system the members are."""
PAGES: Final = ("report.html", "maintainers.md")
"""What is written for people from the other files, at any time: nothing depends on it."""
MEMBERS_MAX: Final = 9
SYNC_LEVEL_MAX: Final = 2
PROFILES: Final = ("aeron", "test")
TOGETHER: Final = "together"
SPLIT: Final = "split"

MemberCount = Annotated[int, Within(1, MEMBERS_MAX)]
SyncLevel = Annotated[int, Within(0, SYNC_LEVEL_MAX)]
Profile = Annotated[str, OneOf(PROFILES)]
Components = Annotated[str, OneOf((TOGETHER, SPLIT))]


@dataclass(frozen=True, slots=True)
class FinalPosition:
    """The positions of one member's log when the run had converged."""

    member_id: int
    append_position: int
    commit_position: int
    leadership_term_id: int


@dataclass(frozen=True, slots=True)
class Converge:
    """The last phase of a run: no more load, all faults healed, every member at one position.

    `reached` is False if the deadline passed first; `members` then has the last positions seen, and `why` the last
    observation of each member. A failed assertion shows `why` alone, because test tools truncate long text.
    """

    reached: bool
    completed_ns: int = field(repr=False)
    members: tuple[FinalPosition, ...] = field(repr=False)
    why: str = ""


@dataclass(frozen=True, slots=True)
class RuleBroken:
    """The rule of a promise that was broken, when, and the role and election state of the member that broke it."""

    rule: str
    role: str = ""
    state: str = ""
    member: int | None = None
    ns: int = 0
    """On the run's clock; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed, if only its runner could see that: the id of a promise, and what was observed."""

    promise: str
    detail: str
    rule: RuleBroken | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """The messages of one name that an exact script expects, in the notation of the documents (`protocol_view`).

    If not None, `source` limits them to one member, and `first` to that many messages. Values of `masked` fields are
    `*`.
    """

    message: str
    masked: tuple[str, ...]
    source: int | None
    first: int | None
    lines: tuple[str, ...]


OWN_SYSTEM: Final = "upheaval"
"""The name of the node of this repository as a system under test."""


def version_of(system: str, own: str) -> str:
    """The version that a system names, as in `aeron:1.51.0`; `own` for one that names none."""
    return system.partition(":")[2] or own


@dataclass(frozen=True, slots=True)
class Manifest:
    """The parameters of a run: enough to read its other files, and to judge it."""

    run_id: str
    runtime: str
    members: MemberCount
    profile: Profile
    sync_level: SyncLevel
    components: Components = TOGETHER
    service: str = ""
    more_services: tuple[str, ...] = ()
    source: FilePath = ""
    """The folder with the code of a user's service, on the machine that made the run."""
    model: str = ""
    """The user's model of the service: `module:Class`, or a module with promises."""
    model_source: FilePath = ""
    """The folder with the code of the model."""
    source_digest: str = ""
    """The digest of the service's code when the run began, see `own_source`."""
    seed: int | None = None
    created: str = ""
    host: str = ""
    boot_id: str = ""
    version: str = ""
    system: str = OWN_SYSTEM
    """The system that the members run: its name, and its version if it has several."""
    system_sha256: str = ""
    """The SHA-256 of the file that the members run, such as Aeron's jar; empty for the node of this repository."""
    systems_before: tuple[str, ...] = ()
    """The system before each step of an upgrade, oldest first; `system` is the last one."""
    planted: str | None = None
    """The bug planted in the members, which then run a test build of the node."""
    compatibility: str = "upheaval"
    """Whose rules the members followed where ours differ from Aeron's."""
    timeouts: Mapping[str, Json] = field(default_factory=dict)
    """Time-outs of the members that differ from the profile, by their names in the node's settings."""
    max_sessions: int | None = None
    """The number of sessions that a member admits; 0 for the profile's number, None in runs of older versions."""
    workload: Mapping[str, Json] = field(default_factory=dict)
    planned_faults: tuple[str, ...] = ()
    """The names of the faults that its scenario injects in any case."""
    planned_commands: tuple[str, ...] = ()
    """The admin commands that its scenario gives, as written in `controls.jsonl`."""
    demanded: tuple[str, ...] = ()
    """The ids of the promises that its scenario demands. If one of them cannot be checked, it is unknown."""
    expected: tuple[Expected, ...] = ()
    """The messages that the run's exact script expects."""
    converge: Converge | None = None
    failures: tuple[Failure, ...] = ()
    """Failures that no other file of the run shows."""
    written: tuple[str, ...] = ()
    """The files that the run began with, record files still empty. If one of them is gone, evidence is missing."""
    sealed: str | None = None
    """The digest of `seal.json`, once the run is collected."""

    @property
    def system_version(self) -> str:
        """The version of what the members ran, which is this program's where they ran its own node."""
        return version_of(self.system, self.version)

    @property
    def copies_commit(self) -> bool:
        """Whether a leader committed its old log when a quorum had copies: Aeron's rule (docs/protocol.md, E8)."""
        return self.compatibility == "aeron" or "E8" in self.compatibility.split(",")

    @property
    def is_script(self) -> bool:
        """Whether the run is of an exact script that expects messages."""
        return bool(self.expected)

    def to_json(self) -> str:
        """The text of `manifest.json`, with the format version."""
        return jsonfields.to_json({"format": FORMAT_VERSION, **asdict(self)}) + "\n"


class AdminCommand(StrEnum):
    """The commands for a cluster. START is not sent to members: it starts those that are down."""

    SNAPSHOT = "snapshot"
    SUSPEND = "suspend"
    RESUME = "resume"
    SHUTDOWN = "shutdown"
    ABORT = "abort"
    START = "start"
    STANDBY_SNAPSHOT = "standby-snapshot"
    """The standbys take a snapshot, the members do not. Done when every running member knows of it."""
    REPLICATE_STANDBY_SNAPSHOT = "replicate-standby-snapshot"
    """Each member fetches the latest snapshot that a standby reported to it."""


STANDBY_COMMANDS: Final = (AdminCommand.STANDBY_SNAPSHOT, AdminCommand.REPLICATE_STANDBY_SNAPSHOT)
"""The commands that need a standby beside the members."""
ADMIN_COMMANDS: Final = tuple(command for command in AdminCommand if command not in STANDBY_COMMANDS)
ENDINGS: Final = (AdminCommand.SHUTDOWN, AdminCommand.ABORT)
FORCED_END: Final = "end by force"
"""`what` of the control record if the harness killed members that it had started, outside any fault."""


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """One admin command of an operator, and the proof that it took effect.

    `what` is an `AdminCommand`, `FORCED_END`, or an action on a node beside the members, as written in a scenario.
    `members` has what was observed of each member afterwards, by its id as text. `leader` is the member that took the
    command, -1 if none did. `operations` counts the operations acknowledged when the command was given.
    """

    what: str
    begin_ns: int
    end_ns: int
    leader: int
    members: Mapping[str, Json]
    proof: Proof
    operations: int = 0

    def to_json(self) -> str:
        """A line of `controls.jsonl`."""
        return json.dumps(asdict(self), separators=(",", ":"))


class MemberFolder:
    """The files of a member, or of a companion, which has the same files and a name.

    `at_rest`: no process appends to them any more, so the trace, which many callers ask for, is read once.
    """

    def __init__(self, path: Path, member_id: int, name: str = "", *, at_rest: bool = False) -> None:
        self.path = path
        self.member_id = member_id
        self.name = name or f"member {member_id}"
        self.trace = path / "trace.jsonl"
        self.archive = path / "archive"
        self.cluster = path / "cluster"
        self.recording_log = path / "cluster" / "recording.log"
        self._is_at_rest = at_rest
        self._events: list[TraceEvent] | None = None

    def protocol_files(self) -> list[Path]:
        """The files of the protocol trace, if any. Of two files of one writer, the older one comes first."""
        return sorted(self.path.glob("protocol*.jsonl"), key=lambda path: (path.name.split(".")[0], -len(path.name)))

    def read_trace(self) -> Iterator[TraceEvent]:
        """The events in order. A last line that its writer did not finish (SIGKILL) is left out.

        Other unfinished lines (a full disk) are left out, too; the next event shows that some were lost.
        """
        if not self._is_at_rest:
            return read_trace_events(self.trace)
        if self._events is None:
            self._events = list(read_trace_events(self.trace))
        return iter(self._events)

    def traced(self) -> Iterator[TraceEvent]:
        """The events as `read_trace` has them; none without a trace."""
        return self.read_trace() if self.trace.exists() else iter(())

    def read_trace_now(self) -> Iterator[TraceEvent]:
        """The same of the file as it is now, at rest or not."""
        return read_trace_events(self.trace)


class RunFolder:
    """A run folder by its path. Nothing is read or made in advance. `at_rest` applies to its members."""

    def __init__(self, path: str | os.PathLike[str], *, at_rest: bool = False) -> None:
        self.path = Path(path)
        self.manifest_file = self.path / "manifest.json"
        self.history_file = self.path / "history.jsonl"
        self.scenario_file = self.path / SCENARIO_NAME
        self.sessions_file = self.path / SESSIONS_NAME
        self.strays_file = self.path / STRAYS_NAME
        self.attempts_file = self.path / ATTEMPTS_NAME
        self.client_stalls_file = self.path / STALLS_NAME
        self.faults_file = self.path / "faults.jsonl"
        self.controls_file = self.path / "controls.jsonl"
        self.consensus_file = self.path / CONSENSUS_NAME
        self.seal_file = self.path / "seal.json"
        self._is_at_rest = at_rest
        self._members: dict[int, MemberFolder] = {}

    def member(self, member_id: int) -> MemberFolder:
        """The folder of one member, whether it exists or not."""
        if member_id not in self._members:
            path = self.path / f"member-{member_id}"
            self._members[member_id] = MemberFolder(path, member_id, at_rest=self._is_at_rest)
        return self._members[member_id]

    @property
    def has_consensus(self) -> bool:
        """Whether forwarders recorded messages."""
        return self.consensus_file.exists() and self.consensus_file.stat().st_size > 0

    def create(self, manifest: Manifest) -> None:
        """Make the folder, the empty record files that processes append to, and the manifest, which names them.

        So the manifest needs no additions later, and a missing file differs from one without records. Raises
        `EnvironmentFault` when that is not possible.
        """
        written = RECORD_FILES if manifest.system == OWN_SYSTEM else (*RECORD_FILES, CONSENSUS_NAME)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in written:
                (self.path / name).touch()
        except OSError as error:
            raise EnvironmentFault(f"cannot make the folder {self.path}: {error.strerror}") from error
        named = tuple(dict.fromkeys((*written, *manifest.written)))
        self.write_manifest(replace(manifest, written=named))

    def write_scenario(self, text: str) -> None:
        """Add the scenario of a run that is beginning, and name its file in the manifest. Raises `EnvironmentFault`."""
        write_atomically(self.scenario_file, text)
        self.change_manifest(lambda manifest: replace(manifest, written=(*manifest.written, SCENARIO_NAME)))

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest in one step, so that a reader never sees half of it. This removes the seal."""
        write_atomically(self.manifest_file, replace(manifest, sealed=None).to_json())
        self.seal_file.unlink(missing_ok=True)

    def change_manifest(self, change: Callable[[Manifest], Manifest]) -> None:
        """Write what `change` makes of the manifest, and no other process changes it meanwhile. This removes the seal.

        Raises as `read_manifest` and `write_manifest`.
        """
        with locked(self.path):
            self.write_manifest(change(self.read_manifest()))

    def unseal(self) -> None:
        """Remove the seal, because the run goes on: what it appends now does not change what was collected."""
        if self.seal_file.exists():
            with locked(self.path):
                self.remove_seal()

    def remove_seal(self) -> None:
        """As `unseal`, for a caller that holds the folder's lock."""
        if self.seal_file.exists():
            self.write_manifest(self.read_manifest())

    def require_folder(self) -> None:
        """Raises `UsageError` for a path without a folder."""
        if not self.path.is_dir():
            raise UsageError(f"{self.path} is not a run folder: no such folder")

    def read_manifest(self) -> Manifest:
        """Raises `UsageError` for a folder without a manifest, a malformed manifest or another format version."""
        self.require_folder()
        if not self.manifest_file.is_file():
            raise UsageError(f"{self.path} is not a run folder: it has no manifest.json")
        try:
            return parse_manifest(jsonfields.parse_object(jsonfields.read_text(self.manifest_file)))
        except FieldError as error:
            raise UsageError(f"{self.manifest_file}: {error}") from None

    def read_history(self) -> Iterator[Operation]:
        """The operations in the order in which they were recorded. Raises as `history.read_history`."""
        return read_history(self.history_file)

    def known_operations(self) -> list[Operation]:
        """The same in a list; none if the file is missing, which is a finding of its own."""
        return list(self.read_history()) if self.history_file.exists() else []

    def history_writer(self, *, buffer_length: int = 64) -> HistoryWriter:
        """A writer that appends to the history and buffers at most `buffer_length` operations."""
        self.unseal()
        return HistoryWriter(self.history_file, buffer_length=buffer_length)

    def add_session_end(self, end: SessionEnd) -> None:
        """Append to `sessions.jsonl`. Several processes may do so."""
        self.unseal()
        _append_line(self.sessions_file, end.to_json())

    def read_session_ends(self) -> Iterator[SessionEnd]:
        """The session ends that clients recorded; none if the file does not exist."""
        return _values(parse_session_end, self.sessions_file)

    def add_stray(self, stray: Stray) -> None:
        """Append to `strays.jsonl`. Several processes may do so."""
        self.unseal()
        _append_line(self.strays_file, stray.to_json())

    def read_strays(self) -> Iterator[Stray]:
        """The answers that no operation waited for; none if the file does not exist."""
        return _values(parse_stray, self.strays_file)

    def add_attempt(self, attempt: ConnectAttempt) -> None:
        """Append to `attempts.jsonl`."""
        self.unseal()
        _append_line(self.attempts_file, attempt.to_json())

    def read_attempts(self) -> Iterator[ConnectAttempt]:
        """The results of attempts to connect; none if the file does not exist."""
        return _values(parse_connect_attempt, self.attempts_file)

    def add_client_stall(self, stall: ClientStall) -> None:
        """Append to `client-stalls.jsonl`. Several processes may do so."""
        self.unseal()
        _append_line(self.client_stalls_file, stall.to_json())

    def read_client_stalls(self) -> Iterator[ClientStall]:
        """The stalls of processes of clients; none if the file does not exist."""
        return _values(parse_client_stall, self.client_stalls_file)

    def add_fault(self, fault: FaultRecord) -> None:
        """Append a fault to `faults.jsonl`. Several processes may do so, and heal others meanwhile."""
        with locked(self.path):
            self.remove_seal()
            _append_line(self.faults_file, fault.to_json())

    def add_control(self, control: ControlRecord) -> None:
        """Append an admin command to `controls.jsonl`."""
        self.unseal()
        _append_line(self.controls_file, control.to_json())

    def add_forced_end(self, member_ids: Iterable[int], begin_ns: int, end_ns: int, why: str) -> None:
        """Record that the harness killed members that it had started.

        A record that cannot be written must not prevent their end, so that error is ignored.
        """
        members: dict[str, Json] = {str(member_id): None for member_id in sorted(set(member_ids)) if member_id >= 0}
        if members:
            with contextlib.suppress(HarnessError):
                self.add_control(ControlRecord(FORCED_END, begin_ns, end_ns, -1, members, Proof(True, why)))

    def read_controls(self) -> Iterator[ControlRecord]:
        """The commands of the run; none if the file does not exist."""
        return _values(parse_control, self.controls_file)

    def heal_fault(self, healed: FaultRecord) -> None:
        """Replace the record of a fault, written when it was injected, with that of the healed fault.

        If another process healed the fault first, its record stays. Raises `UsageError` for a fault without a record.
        """
        before = healed.unhealed()
        with locked(self.path):
            faults = list(self.read_faults())
            if before in faults:
                faults[faults.index(before)] = healed
                self.remove_seal()
                write_atomically(self.faults_file, "".join(fault.to_json() + "\n" for fault in faults))
            elif before not in [fault.unhealed() for fault in faults]:
                raise UsageError(f"{self.faults_file} has no {healed.what} of {healed.where} to heal")

    def read_consensus(self) -> Iterator[TraceEvent]:
        """The messages that forwarders saw between members, read as a trace; none if the file does not exist."""
        return read_trace_events(self.consensus_file) if self.consensus_file.exists() else iter(())

    def read_faults(self) -> Iterator[FaultRecord]:
        """The faults of the run; none if the file does not exist."""
        return _values(parse_fault, self.faults_file)


def _values(make: Callable[[Mapping[str, Json]], T], path: Path) -> Iterator[T]:
    if path.exists():
        for _, value in jsonfields.read_values(make, path):
            yield value


def _append_line(path: Path, line: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
    except OSError as error:
        raise EnvironmentFault(f"cannot write {path}: {error.strerror}") from error


def write_atomically(path: Path, content: str) -> None:
    """Write a small file under another name, then rename it. Raises `EnvironmentFault`."""
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.write_text(content, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise EnvironmentFault(f"cannot write {path}: {error.strerror}") from error


def parse_manifest(fields: Mapping[str, Json]) -> Manifest:
    """Build a manifest from a decoded object. Raises `FieldError` with the reason."""
    version = jsonfields.integer(fields, "format")
    if version != FORMAT_VERSION:
        raise FieldError(f"has format {version}, this version reads format {FORMAT_VERSION}")
    return jsonfields.decode(Manifest, fields)


def parse_fault(fields: Mapping[str, Json]) -> FaultRecord:
    """Build a fault from a decoded line. Raises `FieldError` with the reason."""
    return jsonfields.decode(FaultRecord, fields, ("members",))


def parse_control(fields: Mapping[str, Json]) -> ControlRecord:
    """Build an admin command from a decoded line. Raises `FieldError` with the reason."""
    return jsonfields.decode(ControlRecord, fields, ("operations",))
