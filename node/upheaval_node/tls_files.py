"""The paths of a certificate and its authority, as a configuration has them, and the names in certificates.

Values only: reads no files. A name is that of a member (`member-0`), a backup or a standby, or of a client; it is the
one subjectAltName of a certificate that has this form.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.suggestions import did_you_mean

MEMBER: Final = "member-*"
BACKUP: Final = "backup-*"
STANDBY: Final = "standby-*"
ANYBODY: Final = "*"

_NODE_NAME: Final = re.compile(r"(member|backup|standby)-(0|[1-9][0-9]{0,8})")
_FIELDS: Final = ("authority", "certificate", "key")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files: the certificates of the authority, the member's own certificate (and what leads up to the
    authority), and its key."""

    authority: str
    certificate: str
    key: str


def tls_files(values: Mapping[str, object]) -> TlsFiles | None:
    """The files of a configuration's table; None for an empty one. Raises `UsageError`, which names the wrong field."""
    if not values:
        return None
    unknown = sorted(set(values) - set(_FIELDS))
    if unknown:
        hint = did_you_mean(unknown[0], _FIELDS)
        raise UsageError(f"unknown field tls.{unknown[0]}: use {', '.join(_FIELDS)}{hint}")
    paths: list[str] = []
    for field in _FIELDS:
        value = values.get(field)
        if not isinstance(value, str) or not value:
            raise UsageError(f"tls.{field} must be the path of a PEM file, not {value!r}")
        paths.append(value)
    return TlsFiles(*paths)


def member_name(member_id: int) -> str:
    """The name in the certificate of a member: `member-` and its id."""
    return f"member-{member_id}"


def is_node_name(name: str) -> bool:
    """Whether it is the name of a member, a backup or a standby."""
    return _NODE_NAME.fullmatch(name) is not None


def name_among(names: Iterable[str]) -> str | None:
    """The name that a certificate with these names proves: its one node name, else its first; None if it is unclear."""
    given = list(names)
    nodes = [name for name in given if is_node_name(name)]
    if len(nodes) > 1 or not given:
        return None
    return nodes[0] if nodes else given[0]


def allows(patterns: Iterable[str], name: str) -> bool:
    """Whether a name is one of those; `*` is any name, `member-*` that of any member."""
    for pattern in patterns:
        if pattern in (ANYBODY, name):
            return True
        if pattern.endswith("-*") and is_node_name(name) and name.startswith(pattern[:-1]):
            return True
    return False


def named_address(name: str, address: str) -> str:
    """An address to dial, where only `name` may answer."""
    return f"{name}@{address}"


def split_name(identity: str) -> tuple[str, str]:
    """Name and address of `name@host:port`; the name is "" where there is none."""
    name, separator, address = identity.rpartition("@")
    return (name, address) if separator else ("", identity)
