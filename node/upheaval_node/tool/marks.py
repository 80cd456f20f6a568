"""describe, pid and errors: the content of a node's mark files (Aeron Cluster: mark files, distinct error log).

The mark file may be in another folder: then `cluster-mark.lnk` in the cluster's folder names that folder, and the mark
file names that of the services.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from upheaval_node.errors import DecodeError
from upheaval_node.files.cnc import HEADER_LENGTH, read_header
from upheaval_node.files.error_log import ErrorRecord, read_errors
from upheaval_node.files.mark_file import ClusterMarkHeader, MarkFileContent, decode_mark_file
from upheaval_node.protocol.cluster_mark_messages import SCHEMA, ClusterComponentType
from upheaval_node.protocol.describe import camel_case
from upheaval_node.tool.answer import FAILURE, Answer, ToolFault, Value, failure
from upheaval_node.tool.node import LINK, MARK, SERVICE_MARK_PREFIX, Node

NO_MARK: Final = f"{MARK} does not exist."

_DAT: Final = ".dat"
_LNK: Final = ".lnk"
_MAX_LINK_LENGTH: Final = 4096


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark file that was read."""

    path: str
    content: MarkFileContent[ClusterMarkHeader]

    @property
    def header(self) -> ClusterMarkHeader:
        """The process that runs or ran there, with its streams and folders."""
        return self.content.header


def mark_path(node: Node) -> str:
    """The path of the mark file of the node's module or backup, whether it exists or not."""
    link = node.read(f"{node.cluster_dir}/{LINK}")
    folder = node.cluster_dir if link is None else _folder_of_link(link, LINK)
    return f"{folder}/{MARK}"


def find_mark(node: Node) -> Mark | None:
    """The mark file of the module or backup, or None. Raises `ToolFault` for a damaged one."""
    return _read_mark(node, mark_path(node))


def service_marks(node: Node, mark: Mark) -> list[Mark]:
    """The mark files of the services, by name. A link to a missing file is left out."""
    folder = mark.header.services_cluster_dir
    folder = folder if folder and node.names(folder) else node.cluster_dir
    paths: dict[str, str] = {}
    for name in node.names(folder):
        stem = name[: -len(_LNK)] if name.endswith(_LNK) else name[: -len(_DAT)]
        if not stem.startswith(SERVICE_MARK_PREFIX):
            continue
        if name.endswith(_LNK):
            link = node.read(f"{folder}/{name}")
            paths[stem] = f"{_folder_of_link(link or b'', name)}/{stem}{_DAT}"
        elif name.endswith(_DAT):
            paths.setdefault(stem, f"{folder}/{name}")
    marks = [_read_mark(node, path) for _, path in sorted(paths.items())]
    return [service for service in marks if service is not None]


def describe(node: Node, arguments: Sequence[str]) -> Answer:  # noqa: ARG001 - all commands have this shape
    """Each mark file of the node: kind, whether it is active, and its header."""
    mark = find_mark(node)
    if mark is None:
        # Aeron's tool says so and succeeds.
        return Answer([NO_MARK], {"marks": []})
    now_ms = node.now_ms()
    lines = [_type_line(mark, now_ms), _header_line(mark)]
    services = service_marks(node, mark)
    for service in services:
        lines += [f"INFO: mark file exists: {service.path}", _type_line(service, now_ms), _header_line(service)]
    return Answer(lines, {"marks": [_header_values(component) for component in (mark, *services)]})


def pid(node: Node, arguments: Sequence[str]) -> Answer:  # noqa: ARG001
    """The process id in the module's mark file; fails without a mark file."""
    mark = find_mark(node)
    if mark is None:
        return Answer([], {"pid": None}, FAILURE)
    return Answer([str(mark.header.pid)], {"pid": mark.header.pid})


def errors(node: Node, arguments: Sequence[str]) -> Answer:  # noqa: ARG001
    """The distinct errors of module, media driver and services."""
    mark = find_mark(node)
    if mark is None:
        return Answer([NO_MARK], {"logs": []})
    now_ms = node.now_ms()
    lines = [_type_line(mark, now_ms), *_error_log_lines(mark.content.errors)]
    logs: list[Value] = [_error_log_values(mark)]
    directory, records = _driver_errors(node, mark)
    lines += ["", f"Aeron driver error log (directory: {directory}):"]
    if records is None:
        lines.append(f"{directory}/cnc.dat does not exist.")
    else:
        lines += _observations(records)
    logs.append(
        {"driver": directory, "errors": None if records is None else [_error_values(record) for record in records]}
    )
    for service in service_marks(node, mark):
        lines += [f"INFO: mark file exists: {service.path}", _type_line(service, now_ms)]
        lines += _error_log_lines(service.content.errors)
        logs.append(_error_log_values(service))
    return Answer(lines, {"logs": logs})


def require_mark(node: Node) -> Mark | Answer:
    """The mark file, or the answer of a command without one."""
    mark = find_mark(node)
    return failure(NO_MARK) if mark is None else mark


# --- reading


def _read_mark(node: Node, path: str) -> Mark | None:
    content = node.read(path)
    if content is None:
        return None
    try:
        return Mark(path, decode_mark_file(content, ClusterMarkHeader))
    except DecodeError as error:
        raise ToolFault(f"{path} is damaged: {error}") from error


def _folder_of_link(content: bytes, name: str) -> str:
    text = content[:_MAX_LINK_LENGTH].decode("ascii", "replace").strip()
    if not text or not text.isprintable() or len(content) > _MAX_LINK_LENGTH:
        raise ToolFault(f"{name} names no folder")
    return text.rstrip("/") or "/"


def _driver_errors(node: Node, mark: Mark) -> tuple[str, list[ErrorRecord] | None]:
    path, content = node.cnc(mark.header)
    directory = path.rpartition("/")[0]
    if content is None:
        return directory, None
    try:
        header = read_header(content[:HEADER_LENGTH])
    except DecodeError as error:
        raise ToolFault(f"{path} is damaged: {error}") from error
    if header is None:
        return directory, []
    start = header.layout.error_log_offset
    return directory, read_errors(content[start : start + header.layout.error_log_length])


# --- showing


def time_text(epoch_ms: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """The time in the time zone of this machine; the number itself if it is out of range."""
    try:
        return datetime.fromtimestamp(epoch_ms // 1000, UTC).astimezone().strftime(form)
    except (OverflowError, ValueError, OSError):
        return str(epoch_ms)


def _type_line(mark: Mark, now_ms: int) -> str:
    header = mark.header
    start, activity = time_text(header.start_timestamp), time_text(header.activity_timestamp)
    now = time_text(now_ms, "%H:%M:%S")
    return f"Type: {_component(header)} {now} (start: {start}, activity: {activity})"


def _component(header: ClusterMarkHeader) -> str:
    kind = header.component_type
    return kind.name if isinstance(kind, ClusterComponentType) else "NULL_VAL"


def _header_line(mark: Mark) -> str:
    values = _header_values(mark)
    head = "|".join(f"{name}={values[name]}" for name in _SBE_NAMES)
    body = "|".join(
        f"{name}='{value}'" if isinstance(value, str) and name != "componentType" else f"{name}={value}"
        for name, value in values.items()
        if name not in _SBE_NAMES and name != "path"
    )
    return f"[MarkFileHeader]({head}):{body}"


_SBE_NAMES: Final = ("sbeTemplateId", "sbeSchemaId", "sbeSchemaVersion", "sbeBlockLength")


def _header_values(mark: Mark) -> dict[str, Value]:
    content = mark.content
    values: dict[str, Value] = {"path": mark.path}
    numbers = (ClusterMarkHeader.TEMPLATE_ID, SCHEMA.table.schema_id, content.schema_version, content.block_length)
    values.update(zip(_SBE_NAMES, numbers, strict=True))
    for name in ClusterMarkHeader.__match_args__:
        values[camel_case(name)] = getattr(content.header, name)
    values["componentType"] = _component(content.header)
    return values


def _error_log_lines(records: Sequence[ErrorRecord]) -> list[str]:
    return ["Cluster component error log:", *_observations(records)]


def _observations(records: Sequence[ErrorRecord]) -> list[str]:
    lines: list[str] = []
    for record in records:
        first, last = _precise(record.first_ms), _precise(record.last_ms)
        lines += ["", f"{record.count} observations from {first} to {last} for:", *record.text.splitlines()]
    # Aeron writes the letter when there are none, and no full stop.
    return [*lines, "", f"{len(records)} distinct errors observed." if records else "O distinct errors observed"]


def _precise(epoch_ms: int) -> str:
    return time_text(epoch_ms, f"%Y-%m-%d %H:%M:%S.{epoch_ms % 1000:03}%z")


def _error_log_values(mark: Mark) -> dict[str, Value]:
    return {
        "path": mark.path,
        "componentType": _component(mark.header),
        "errors": [_error_values(error) for error in mark.content.errors],
    }


def _error_values(error: ErrorRecord) -> dict[str, Value]:
    return {"observations": error.count, "firstMs": error.first_ms, "lastMs": error.last_ms, "text": error.text}
