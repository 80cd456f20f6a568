"""The logs of a run in one place: what members, what runs beside them and their services say, with level and time.

From the traces, which have it on every runtime, and from what processes printed, as far as its lines have them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from itertools import groupby
from typing import Final

from upheaval.records import Json, Manifest, MemberFolder, RunFolder, TraceEvent, companion_folders
from upheaval.report.printed_lines import printed_lines
from upheaval.report.unlogged import without_logged
from upheaval.runtime_names import DOCKER
from upheaval_chaos.programs import ENCODING, ERRORS
from upheaval_node.runtime.log_lines import ERROR, INFO, SHOWN, WARNING, level_of
from upheaval_node.trace_kinds import TraceKind

LEVELS: Final = (INFO, WARNING, ERROR)
PRINTED: Final = "printed"
"""Where other lines have a component: what a process printed."""

_OF_LINES: Final = ("ts", "epoch_ms", "member", "component", "pid", "run", "event", "traceback")


@dataclass(frozen=True, slots=True)
class LogLine:
    """An entry of a log; `epoch_ms` is None if it was printed without a time. `text` may have several lines."""

    epoch_ms: int | None
    owner: str
    component: str
    level: str
    text: str
    is_of_node: bool = True
    """Whether the node itself logged it, not a service or a print."""

    def __str__(self) -> str:
        """As `upheaval logs` prints it."""
        first, *more = self.text.splitlines() or [""]
        head = f"{self._moment():24} {self.level:7} {self.owner:9} {self.component:9} {first}"
        return "\n".join([head, *(f"    {line}" for line in more)])

    def _moment(self) -> str:
        if self.epoch_ms is None:
            return "-"
        moment = datetime.fromtimestamp(self.epoch_ms / 1000, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def to_fields(self) -> dict[str, Json]:
        """As `--json` prints it."""
        return {name: getattr(self, name) for name in ("epoch_ms", "owner", "component", "level", "text")}


def read_logs(run: RunFolder, members: Iterable[int] = (), level: str = INFO) -> list[LogLine]:
    """Of these members, or of all and what runs beside them, from that level on; by time, and what has none first."""
    wanted, manifest = set(members), run.read_manifest()
    folders = [run.member(member_id) for member_id in range(manifest.members) if not wanted or member_id in wanted]
    if not wanted:
        folders += [MemberFolder(path, -1, path.name) for path in companion_folders(run.path)]
    least = LEVELS.index(level)
    lines = (line for folder in folders for line in _lines_of(folder, manifest) if LEVELS.index(line.level) >= least)
    return sorted(lines, key=lambda line: line.epoch_ms or 0)


def last_lines(run: RunFolder, count: int) -> list[LogLine]:
    """The last ones of each owner together: warnings, errors and what is not of the node, which ends its runs alike."""
    relevant = (line for line in read_logs(run) if line.level != INFO or not line.is_of_node)
    by_owner = sorted(relevant, key=lambda line: line.owner)
    return [line for _, lines in groupby(by_owner, key=lambda line: line.owner) for line in list(lines)[-count:]]


def _lines_of(folder: MemberFolder, manifest: Manifest) -> Iterator[LogLine]:
    # The clocks of containers show UTC.
    zone = UTC if manifest.runtime == DOCKER else None
    traced = folder.traced()
    events = [event for event in traced if event.event in SHOWN or event.event == TraceKind.LOG]
    for path in sorted(folder.path.glob("*.log")):
        logged = [e for e in events if e.event == TraceKind.LOG and e.fields.get("component") == path.stem]
        with path.open(encoding=ENCODING, errors=ERRORS) as stream:
            lines = without_logged((line.rstrip("\n") for line in stream), logged)
            for line in printed_lines(lines, _day(manifest, zone), zone):
                yield LogLine(line.epoch_ms, folder.path.name, PRINTED, line.level, line.text, is_of_node=False)
    for event in events:
        component = str(event.fields.get("component", ""))
        moment, is_of_node = _epoch_ms(event), event.event != TraceKind.LOG
        yield LogLine(moment, folder.path.name, component, _level(event), _text(event), is_of_node)


def _day(manifest: Manifest, zone: tzinfo | None) -> date:
    """On which the run began; the first of all days for a run that does not say."""
    try:
        return datetime.fromisoformat(manifest.created).astimezone(zone).date()
    except ValueError:
        return datetime.fromtimestamp(0, UTC).date()


def _level(event: TraceEvent) -> str:
    level = event.fields.get("level")
    return str(level) if event.event == TraceKind.LOG and level in LEVELS else level_of(event.event, event.fields)


def _epoch_ms(event: TraceEvent) -> int:
    value = event.fields.get("epoch_ms")
    return value if type(value) is int else 0


def _text(event: TraceEvent) -> str:
    fields = event.fields
    if event.event == TraceKind.SERVICE_RAISED:
        times = f", {fields.get('count')} times by now" if fields.get("count") != 1 else ""
        head = f"{fields.get('callback')} raised {fields.get('error')}, at {fields.get('where')}{times}"
        return f"{head}\n{fields.get('traceback') or ''}".rstrip()
    if event.event in (TraceKind.ERROR, TraceKind.LOG):
        head = f"{fields.get('kind') or fields.get('logger')}: {fields.get('text')}"
        return f"{head}\n{fields.get('traceback') or ''}".rstrip()
    values = (f"{name}={value}" for name, value in fields.items() if name not in _OF_LINES and value not in (None, ""))
    return " ".join([event.event, *values])
