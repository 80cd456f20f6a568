"""The counters of a member, in the text format of Prometheus (0.0.4).

A pure function of the counters, so that it sees all components of a member, whichever process they run in. What no
component publishes yet is left out. The names are part of the interface: docs/metrics.md lists them.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from upheaval_node import __version__, counters as types
from upheaval_node.counters import Counters, service_id_of_key
from upheaval_node.runtime.health import ROLES, append_position
from upheaval_node.types import NEVER_NS, S

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COMMIT_LATENCY: Final = "upheaval_commit_latency_seconds"


class Sample(NamedTuple):
    """`suffix` goes after the name of the family."""

    value: int | float
    labels: Mapping[str, str] = {}
    suffix: str = ""


_GAUGES: Final = (
    ("upheaval_module_state", types.CONSENSUS_MODULE_STATE, "State of the consensus module, as Aeron numbers it."),
    ("upheaval_election_state", types.ELECTION_STATE, "State of the election, as Aeron numbers it; 17: none runs."),
    ("upheaval_leadership_term_id", types.LEADERSHIP_TERM_ID, "The leadership term; -1 before the first one."),
    ("upheaval_commit_position_bytes", types.COMMIT_POSITION, "Up to where this member knows the log to be committed."),
    ("upheaval_sessions", types.OPEN_SESSIONS, "Client sessions that are open in the log."),
    ("upheaval_archive_control_sessions", types.ARCHIVE_CONTROL_SESSIONS, "Clients of the archive."),
    ("upheaval_archive_recording_sessions", types.ARCHIVE_RECORDING_SESSIONS, "Streams that are being recorded."),
    ("upheaval_archive_replay_sessions", types.ARCHIVE_REPLAY_SESSIONS, "Recordings that are being replayed."),
    ("upheaval_backup_state", types.BACKUP_STATE, "State of the backup agent, as Aeron numbers it."),
    ("upheaval_backup_position_bytes", types.BACKUP_LIVE_LOG_POSITION, "Up to where the backup has the log; -1: none."),
)
_COUNTS: Final = (
    ("upheaval_elections_total", types.ELECTION_COUNT, "Elections that this member took part in since its start."),
    ("upheaval_client_timeouts_total", types.CLIENT_TIMEOUT_COUNT, "Sessions that timed out under this leader."),
    ("upheaval_backup_retrievals_total", types.BACKUP_SNAPSHOTS_RETRIEVED, "How often a backup copied snapshots."),
)

_ERRORS: Final = (
    ("consensus", types.CLUSTER_ERRORS),
    ("archive", types.ARCHIVE_ERRORS),
    ("backup", types.BACKUP_ERRORS),
)


def render(counters: Counters, *, member_id: int | str, start_ms: int) -> bytes:
    """Render all metrics. A node that is not a member has its name in place of a member id."""
    by_type = _collect(counters)
    lines: list[str] = []
    info = {"member_id": str(member_id), "version": __version__}
    _write(lines, "upheaval_info", "gauge", "The member and its version.", [Sample(1, info)])
    start_help = "When the counters began, in seconds of Unix time."
    _write(lines, "upheaval_start_time_seconds", "gauge", start_help, [Sample(start_ms / 1000)])
    role_help = "1 for the role that the member has, 0 for the others."
    _write(lines, "upheaval_role", "gauge", role_help, _roles(by_type))
    for name, type_id, text in _GAUGES:
        _write(lines, name, "gauge", text, [Sample(value) for _, value in by_type.get(type_id, ())[:1]])
    position = append_position(counters)
    append_help = "Up to where the log is in this member's archive; absent while it is not being recorded."
    appended = [] if position is None else [Sample(position)]
    _write(lines, "upheaval_append_position_bytes", "gauge", append_help, appended)
    for name, type_id, text in _COUNTS:
        _write(lines, name, "counter", text, [Sample(value) for _, value in by_type.get(type_id, ())[:1]])
    _write(lines, "upheaval_errors_total", "counter", "Errors that ended nothing, by component.", _errors(by_type))
    latency_help = "From the append of a log position to its commit, sampled on the leader one at a time."
    _write(lines, COMMIT_LATENCY, "histogram", latency_help, _latency(by_type))
    return "".join(lines).encode("ascii")


_ByType = dict[int, list[tuple[bytes, int]]]
"""Keys and values of the counters of each type, in the order of their ids."""


def _collect(counters: Counters) -> _ByType:
    """Read all counters once, without those that exist per client."""
    by_type: _ByType = {}
    for counter_id in counters.allocated_ids():
        type_id = counters.type_id(counter_id)
        if type_id != types.CLUSTER_SESSION:
            value = counters.value_words[counter_id * (types.VALUE_LENGTH // 8)]
            by_type.setdefault(type_id, []).append((counters.key(counter_id), value))
    return by_type


def _roles(by_type: _ByType) -> list[Sample]:
    roles = by_type.get(types.CLUSTER_NODE_ROLE)
    if not roles:
        return []
    return [Sample(int(roles[0][1] == number), {"role": name.lower()}) for number, name in enumerate(ROLES)]


def _errors(by_type: _ByType) -> list[Sample]:
    samples = [
        Sample(value, {"component": component})
        for component, type_id in _ERRORS
        for _, value in by_type.get(type_id, ())[:1]
    ]
    # The only system counter of the media driver is that of invalid packets.
    samples += [Sample(value, {"component": "media"}) for _, value in by_type.get(types.SYSTEM_COUNTER, ())[:1]]
    for key, value in by_type.get(types.CONTAINER_ERRORS, ()):
        samples.append(Sample(value, {"component": f"service-{service_id_of_key(key)}"}))
    return samples


def _latency(by_type: _ByType) -> list[Sample]:
    """Prometheus's buckets are cumulative; the counters are not."""
    buckets = sorted(
        (types.latency_bucket_bound(key), value) for key, value in by_type.get(types.COMMIT_LATENCY_BUCKET, ())
    )
    sums = by_type.get(types.COMMIT_LATENCY_SUM)
    if not buckets or not sums:
        return []
    samples: list[Sample] = []
    count = 0
    for bound_ns, value in buckets:
        count += value
        bound = "+Inf" if bound_ns == NEVER_NS else repr(bound_ns / S)
        samples.append(Sample(count, {"le": bound}, "_bucket"))
    return [*samples, Sample(sums[0][1] / S, suffix="_sum"), Sample(count, suffix="_count")]


def _write(lines: list[str], name: str, kind: str, text: str, samples: Iterable[Sample]) -> None:
    head = f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
    for value, labels, suffix in samples:
        pairs = ",".join(f'{label}="{content}"' for label, content in labels.items())
        lines.append(f"{head}{name}{suffix}{{{pairs}}} {value!r}\n" if pairs else f"{head}{name}{suffix} {value!r}\n")
        head = ""
