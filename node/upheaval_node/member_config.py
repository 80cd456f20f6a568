"""The configuration of one member, and its form as a JSON object.

Values only: this module reads no files and no environment. Paths are relative to the member's folder, except the
folder itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

from upheaval_node.cluster.members import Endpoints, parse_members
from upheaval_node.errors import UsageError
from upheaval_node.settings import MemberSettings, profile_settings
from upheaval_node.suggestions import did_you_mean
from upheaval_node.tls_files import ANYBODY, BACKUP, MEMBER, STANDBY, TlsFiles, member_name, tls_files
from upheaval_node.types import MemberId

Settings = TypeVar("Settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """What every node is configured with, whether it is a member, a backup or a standby.

    `names` says where this node dials for an endpoint (every other one is dialled as written). `seed` None means that
    every start draws another one. `metrics_port` 0 leaves the HTTP endpoint out. The endpoint asks for no credentials
    and shows numbers to any client that reaches it, so `metrics_host` is loopback by default. `protocol_trace` is how
    many bytes the trace of each message and state change may take in each process of the node, 0 to have none. With
    `tls` everything that crosses the network between members, clients and backups goes over TLS; without it nothing
    does.
    """

    folder: str
    names: Mapping[str, str] = field(default_factory=dict)
    run_id: str = ""
    trace: str = "trace.jsonl"
    seed: int | None = None
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"
    protocol_trace: int = 0
    tls: TlsFiles | None = None

    @property
    def metrics_address(self) -> str | None:
        """Where metrics and health are to be had; None for nowhere."""
        host = f"[{self.metrics_host}]" if ":" in self.metrics_host else self.metrics_host
        return f"{host}:{self.metrics_port}" if self.metrics_port else None

    def _check_process(self, kind: str, ports: Sequence[str]) -> None:
        """`ports` are those of the node's endpoints. Raises `UsageError`."""
        if not 0 <= self.metrics_port <= 65535:
            raise UsageError(f"metrics_port must be 0 (off) to 65535, not {self.metrics_port}")
        if self.metrics_port and str(self.metrics_port) in ports:
            raise UsageError(f"metrics_port {self.metrics_port} is the port of another endpoint of this {kind}")
        if self.protocol_trace < 0:
            raise UsageError(f"protocol_trace must be a number of bytes, 0 for none, not {self.protocol_trace}")


def process_fields(reader: "Fields") -> dict[str, Any]:
    """The fields of a `ProcessConfig` as a JSON object states them."""
    return {
        "folder": reader.text("folder"),
        "names": reader.names("names"),
        "run_id": reader.text("run_id", ""),
        "trace": reader.text("trace", "trace.jsonl"),
        "seed": reader.optional_integer("seed"),
        "metrics_port": reader.integer("metrics_port", 0),
        "metrics_host": reader.text("metrics_host", "127.0.0.1"),
        "protocol_trace": reader.integer("protocol_trace", 0),
        "tls": tls_files(reader.table("tls")),
    }


@dataclass(frozen=True, slots=True)
class MemberConfig(ProcessConfig):
    """One member of a cluster.

    `members` is `id,ingress,consensus,log,catchup,archive|...` with endpoints `host:port`. `services` are names for
    the service loader, one a container, in order of their service ids.
    """

    member_id: MemberId
    members: str
    services: tuple[str, ...] = ("echo",)
    settings: MemberSettings = field(default_factory=MemberSettings)
    python_path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.member_id not in parse_members(self.members):
            raise UsageError(f"member id {self.member_id} is not among the members {self.members!r}")
        if not self.services or len(self.services) != self.settings.cluster.service_count:
            raise UsageError(f"{len(self.services)} services named, {self.settings.cluster.service_count} set")
        self._check_process("member", [address.rpartition(":")[2] for address in _addresses(self.endpoints)])

    @property
    def endpoints(self) -> Endpoints:
        """Where this member listens."""
        return parse_members(self.members)[self.member_id].endpoints


def config_from_fields(values: Mapping[str, object]) -> MemberConfig:
    """The configuration that a JSON object states. Raises `UsageError` naming the field that is wrong."""
    reader = Fields(values)
    services = tuple(reader.texts("service", ("echo",)))
    settings = profile_settings(reader.text("profile", "aeron"), sync_level=reader.integer("sync_level", 0))
    cluster = replace(
        settings.cluster,
        cluster_id=reader.integer("cluster_id", 0),
        appointed_leader_id=reader.integer("appointed_leader", -1),
        service_count=len(services),
    )
    settings = apply_overrides(replace(settings, cluster=cluster), reader.table("settings"))
    config = MemberConfig(
        member_id=MemberId(reader.integer("member_id")),
        members=reader.text("members"),
        services=services,
        settings=settings,
        python_path=tuple(reader.texts("python_path", ())),
        **process_fields(reader),
    )
    reader.refuse_unread()
    return config


def member_names_by_endpoint(members: str) -> dict[str, str]:
    """The name in the certificate of the member at each endpoint of a members string."""
    return {
        endpoint: member_name(member.id)
        for member in parse_members(members).values()
        for endpoint in _addresses(member.endpoints)
    }


def accepted_names(own: Endpoints) -> dict[str, tuple[str, ...]]:
    """Who may dial each endpoint of a member, by the names in certificates.

    Everybody of the authority is a client. The log and its replays are for members, and only they come to a member's
    consensus stream, except for what backups and standby members ask there and copy from its archive.
    """
    nodes = (MEMBER, BACKUP, STANDBY)
    return {
        own.ingress: (ANYBODY,),
        own.consensus: nodes,
        own.log: (MEMBER,),
        own.catchup: (MEMBER,),
        own.archive: nodes,
    }


def _addresses(endpoints: Endpoints) -> tuple[str, ...]:
    return (endpoints.ingress, endpoints.consensus, endpoints.log, endpoints.catchup, endpoints.archive)


def apply_overrides(settings: Settings, overrides: Mapping[str, object], path: str = "settings") -> Settings:
    """A copy of (nested) settings with some fields replaced. Raises `UsageError` for unknown ones and wrong types."""
    changes: dict[str, object] = {}
    assert is_dataclass(settings)
    known = {setting.name for setting in fields(settings)}
    for name, value in overrides.items():
        where = f"{path}.{name}"
        if name not in known:
            hint = did_you_mean(name, known)
            raise UsageError(f"{where} is not a setting: use one of {', '.join(sorted(known))}{hint}")
        old = getattr(settings, name)
        if is_dataclass(old):
            if not isinstance(value, Mapping):
                raise UsageError(f"{where} must be an object")
            changes[name] = apply_overrides(old, value, where)
        elif type(value) is not type(old):
            raise UsageError(f"{where} must be of type {type(old).__name__}, not {value!r}")
        else:
            changes[name] = value
    changed: Settings = replace(settings, **changes)  # type: ignore[type-var]
    return changed


class Fields:
    """Reads the fields of a JSON object with their types, and knows which were not read."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values
        self._read: set[str] = set()

    def text(self, name: str, default: str | None = None) -> str:
        """A text. Raises `UsageError` for anything else, and where it is missing without a default."""
        value = self._get(name, default)
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a text, not {value!r}")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer. Raises `UsageError` for anything else, and where it is missing without a default."""
        value = self._get(name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{name} must be an integer, not {value!r}")
        return value

    def optional_text(self, name: str) -> str | None:
        """A text, or None where the field is missing or null."""
        self._read.add(name)
        return None if self._values.get(name) is None else self.text(name)

    def optional_integer(self, name: str) -> int | None:
        """An integer, or None where the field is missing or null."""
        self._read.add(name)
        return None if self._values.get(name) is None else self.integer(name)

    def texts(self, name: str, default: Sequence[str]) -> list[str]:
        """A list of texts; a single text counts as a list of one."""
        value = self._get(name, default)
        if isinstance(value, str):
            return [value]
        if not isinstance(value, Sequence) or not all(isinstance(text, str) for text in value):
            raise UsageError(f"{name} must be a list of texts, not {value!r}")
        return list(value)

    def table(self, name: str) -> Mapping[str, object]:
        """An object, empty where the field is missing. Raises `UsageError` for anything else."""
        value = self._get(name, {})
        if not isinstance(value, Mapping):
            raise UsageError(f"{name} must be an object, not {value!r}")
        return value

    def names(self, name: str) -> dict[str, str]:
        """An object of which every value is a text. Raises `UsageError` for another one."""
        names: dict[str, str] = {}
        for key, value in self.table(name).items():
            if not isinstance(value, str):
                raise UsageError(f"{name}.{key} must be a text, not {value!r}")
            names[key] = value
        return names

    def refuse_unread(self) -> None:
        """Raise `UsageError` for a field that was not read: most likely its name has a typing error."""
        unknown = sorted(set(self._values) - self._read)
        if unknown:
            raise UsageError(f"unknown field {unknown[0]!r} in the configuration")

    def _get(self, name: str, default: object) -> object:
        self._read.add(name)
        value = self._values.get(name, default)
        if value is None:
            raise UsageError(f"{name} is missing in the configuration")
        return value
