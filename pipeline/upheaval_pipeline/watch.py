"""`upheaval watch`: follows a run that goes on, and tells what is broken as soon as it is known.

The streaming query judges; here its batches are told, what it has read is compared with what there is, and the run's
end is seen. Each batch is told, then written down in the checkpoint, then committed by Spark: after a kill the findings
of one batch at most are told again.
"""

import json
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions as F

from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.positions import LogBounds, finals_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.evidence.recordings import LogMissing, RecordedLog
from upheaval.checkers.verdict import Verdict
from upheaval.checkers.history.witness import acknowledged_not_lost
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import Function, Manifest, Outcome, RunFolder, write_atomically
from upheaval.system import system_named
from upheaval.waits import wait_until
from upheaval_pipeline.facts import operation_of
from upheaval_pipeline.following import committed_positions, more_frames, more_lines
from upheaval_pipeline.watch_output import Output, Status
from upheaval_pipeline.watched import watched

SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "4",
    # Each batch writes down all states that it changes.
    "spark.sql.streaming.minBatchesToRetain": "10",
}
JUDGED: Final = (
    Promise.ONE_LEADER_A_TERM,
    Promise.LOGS_EQUAL,
    Promise.ACKNOWLEDGED_NOT_LOST,
    Promise.LINEARIZABLE,
)
NOT_JUDGED: Final = (
    f"not judged while the run goes on: every promise but {', '.join(JUDGED)}; of {Promise.LINEARIZABLE} the order in "
    "time; calls to services of a user's own"
)
IN_VOLUMES: Final = (
    "the members' logs and traces are in volumes of the engine until `upheaval down`: until then answers are counted, "
    "and judged after it"
)
_DOCKER: Final = "docker"
_PROGRESS: Final = "watch.json"
_QUERY: Final = "query"
_INTERVAL: Final = "500 milliseconds"
_LOOK_S: Final = 0.2
_SHOWN: Final = 10


@dataclass
class Progress:
    """What was told, as the checkpoint keeps it."""

    run_id: str
    batch: int = -1
    """The last one that was told."""
    answered: int = 0
    judged: int = 0
    given_up: int = 0
    last_ns: int = -1
    broken: list[str] = field(default_factory=list)
    """Promises, each once."""
    unreadable: list[str] = field(default_factory=list)
    """Why, of lines that make no sense; the first ones."""

    @property
    def waiting(self) -> int:
        """Answers whose place in the log was not read yet."""
        return self.answered - self.judged - self.given_up


def open_checkpoint(folder: Path, run_id: str) -> Progress:
    """What a watch before this one has told. Raises `UsageError` for a folder that holds something else."""
    file = folder / _PROGRESS
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name a new one")
    if not folder.exists() or not any(folder.iterdir()):
        folder.mkdir(parents=True, exist_ok=True)
        progress = Progress(run_id)
        write_atomically(file, json.dumps(asdict(progress)))
        return progress
    try:
        progress = Progress(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise UsageError(f"{folder} is no checkpoint of a watch: name a new folder") from None
    if progress.run_id != run_id:
        raise UsageError(
            f"{folder} is the checkpoint of run {progress.run_id}, this is run {run_id}: name a new folder"
        )
    return progress


class Watch:
    """Of one run, from where its checkpoint says."""

    def __init__(self, run: RunFolder, checkpoint: Path, progress: Progress, output: Output) -> None:
        self._run = run
        self._manifest = run.read_manifest()
        self._checkpoint = checkpoint
        self._progress = progress
        self._output = output
        self._failure: BaseException | None = None
        self._lock = threading.Lock()

    def follow(self, spark: SparkSession, interrupted: Callable[[], None]) -> Verdict:
        """Until the run has ended and everything is read. `interrupted` raises when the watch is to end before that."""
        if losses_of(self._run, self._manifest).powerless:
            raise UsageError(
                "members lost power and nothing was synced, so logs go back: judge it by `upheaval verify`"
            )
        self._output.note(NOT_JUDGED)
        if self._manifest.runtime == _DOCKER and not self._has_ended():
            self._output.note(IN_VOLUMES)
        query = (
            watched(spark, self._run.path, self._manifest.members)
            .writeStream.foreachBatch(self._tell)
            .option("checkpointLocation", str((self._checkpoint / _QUERY).absolute()))
            .trigger(processingTime=_INTERVAL)
            .start()
        )

        def is_over() -> bool:
            interrupted()
            if self._failure is not None:
                raise self._failure
            if not query.isActive:
                raise query.exception() or EnvironmentFault("Spark ended the query and does not say why")
            return self._look()

        try:
            wait_until(is_over, timeout_s=math.inf, describe=lambda: "the run goes on", interval_s=_LOOK_S)
        finally:
            query.stop()
        return self._end(spark)

    def _tell(self, batch: DataFrame, number: int) -> None:
        """Spark calls it with each batch, and again with one that it had not committed."""
        try:
            if number <= self._progress.batch:
                return
            told = [json.loads(row.told) for row in batch.collect()]  # a row a group that has something to tell
            with self._lock:
                for each in told:
                    self._add(each)
                self._progress.batch = number
                write_atomically(self._checkpoint / _PROGRESS, json.dumps(asdict(self._progress)))
        except BaseException as failure:
            self._failure = failure
            raise

    def _add(self, told: Mapping[str, Any]) -> None:
        progress = self._progress
        progress.answered += told["answered"]
        progress.judged += told["judged"]
        progress.given_up += told["given_up"]
        progress.last_ns = max(progress.last_ns, told["last_ns"])
        for finding in told["findings"]:
            self._broken(finding)
        for reason in told["unreadable"]:
            progress.unreadable = [*progress.unreadable, reason][:_SHOWN]
            self._output.note(f"unreadable: {reason}")

    def _broken(self, finding: Mapping[str, Any]) -> None:
        if finding["promise"] not in self._progress.broken:
            self._progress.broken.append(finding["promise"])
        self._output.finding(finding)

    def _look(self) -> bool:
        """Show how far the watch is; whether the run has ended, and nothing is left to be read."""
        has_ended = self._has_ended()
        committed = committed_positions(self._run)
        history, recording, trace = self._offsets()
        read = {member: recording.get(str(member), 0) for member in committed}
        with self._lock:
            status = Status(
                followed=self._progress.judged,
                waiting=self._progress.waiting,
                given_up=self._progress.given_up,
                committed=committed,
                read=read,
                unread_bytes=self._unread(history, committed, read),
                last_ns=self._progress.last_ns,
                boot_id=self._manifest.boot_id,
            )
        self._output.status(status)
        return has_ended and not self._has_more(history, trace, committed, read)

    def _has_ended(self) -> bool:
        """It was collected; or its members came to one position, and none of them runs any more."""
        self._manifest = manifest = self._run.read_manifest()
        if manifest.sealed is not None:
            return True
        return manifest.converge is not None and manifest.runtime != _DOCKER and not is_running(self._run, manifest)

    def _offsets(self) -> list[dict[str, Any]]:
        """Of history, recording and trace: up to where the last batch that Spark committed had read."""
        folder = self._checkpoint / _QUERY
        commits = [int(path.name) for path in (folder / "commits").glob("*") if path.name.isdecimal()]
        if not commits:
            return [{}, {}, {}]
        lines = (folder / "offsets" / str(max(commits))).read_text(encoding="utf-8").splitlines()
        # After version and settings a line a source; "-" of one that has had nothing yet.
        return [{} if line == "-" else json.loads(line) for line in lines[-3:]]

    def _unread(self, history: Mapping[str, Any], committed: Mapping[int, int], read: Mapping[int, int]) -> int:
        path = self._run.history_file
        left = path.stat().st_size - history.get("bytes", 0) if path.exists() else 0
        return left + sum(max(position - read[member], 0) for member, position in committed.items())

    def _has_more(
        self,
        history: Mapping[str, Any],
        trace: Mapping[str, Any],
        committed: Mapping[int, int],
        read: Mapping[int, int],
    ) -> bool:
        traces = ((self._run.member(member).trace, trace.get(str(member), {}).get("bytes", 0)) for member in committed)
        lines = [(self._run.history_file, history.get("bytes", 0)), *traces]
        ranges = (more_lines(path, offset, 1) for path, offset in lines)
        return any(end > begin for begin, end, _ in ranges) or any(
            more_frames(self._run.member(member), read[member], position, 1) != read[member]
            for member, position in committed.items()
        )

    def _end(self, spark: SparkSession) -> Verdict:
        """What only the end of the run shows, and the verdict. Raises `UsageError` for lines that make no sense."""
        _, recording, _ = self._offsets()
        read = {member: recording.get(str(member), 0) for member in range(self._manifest.members)}
        unknown = self._not_read(read)
        if self._progress.waiting and not unknown:
            self._past_the_logs(spark, max(read.values()))
        left = self._progress.waiting + self._progress.given_up
        if left:
            unknown.append(f"{left} answers were not found out about: the log was not read at their positions")
        for text in unknown:
            self._output.note(text)
        verdict = Verdict.INVALID if self._progress.broken else Verdict.UNKNOWN if unknown else Verdict.VALID
        if verdict is not Verdict.INVALID and self._progress.unreadable:
            raise UsageError(self._progress.unreadable[0])
        self._output.end(verdict, self._progress.judged, self._progress.broken)
        return verdict

    def _past_the_logs(self, spark: SparkSession, end: int) -> None:
        """Tell of answers past the end of all logs."""
        is_answer = (F.col("outcome") == Outcome.OK.value) & (F.col("f") != Function.CALL.value)
        history = spark.read.format("history").load(str(self._run.path.absolute()))
        rows = history.where(is_answer & (F.col("position") > end)).orderBy("line").limit(_SHOWN).collect()
        for row in rows:
            answer = [row.id, row.f, row.key, json.loads(row.value), json.loads(row.result), row.position]
            finding = acknowledged_not_lost([operation_of(answer)], {}, LogBounds(commit_position=end))
            self._broken(finding.to_fields())

    def _not_read(self, read: Mapping[int, int]) -> list[str]:
        finals = finals_of(self._manifest)
        short = [] if finals else ["the run did not converge: what its members had in the end is not known"]
        short += [
            f"member {each} lost files: the log of its new host was not compared from its beginning"
            for each in sorted(losses_of(self._run, self._manifest).members)
        ]
        short += [
            f"the log of member {final.member_id} was read up to position {read.get(final.member_id, 0)} of "
            f"{final.commit_position}"
            for final in finals
            if read.get(final.member_id, 0) < final.commit_position
        ]
        begins = [start for start in map(self._start_position, read) if start is not None]
        if begins and min(begins) > 0:
            short.append(f"no results were judged: the log begins at position {min(begins)}")
        return short

    def _start_position(self, member: int) -> int | None:
        try:
            return RecordedLog(self._run.member(member)).start_position
        except LogMissing:
            return None


def is_running(run: RunFolder, manifest: Manifest) -> bool:
    """Whether any member is, on this machine."""
    system = system_named(manifest.system)
    return any(
        system.read_status(run.member(member).path, member, manifest.run_id).alive for member in range(manifest.members)
    )
