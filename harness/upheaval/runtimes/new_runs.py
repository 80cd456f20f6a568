"""What is decided before the members of a new live run start: its id and version, its ports, its manifest."""

import platform
import uuid
from dataclasses import replace
from datetime import UTC, datetime

from upheaval.checkers.protocol.identities import SECURITY_FILE
from upheaval.records import CLUSTER_FILE, Manifest, code_digest
from upheaval.runtimes import cluster_file, ports
from upheaval.system import ClusterSpec, system_named
from upheaval.system.process_table import boot_id


def made(spec: ClusterSpec, runtime: str) -> ClusterSpec:
    """The specification for a new run, with the system's version. Raises `UsageError` when it could never start."""
    spec = replace(spec.made(uuid.uuid4().hex), system=system_named(spec.system).text)
    cluster_file.check(spec, runtime)
    return spec


def with_base_port(spec: ClusterSpec) -> ClusterSpec:
    """The specification with the requested base port, or else with a free one. Raises `HarnessError` when a port is in
    use.
    """
    if not spec.base_port:
        return replace(spec, base_port=ports.choose_base_port(spec.members))
    ports.require_free(spec.base_port, spec.members)
    return spec


def new_manifest(spec: ClusterSpec, runtime: str) -> Manifest:
    """The manifest of a run that begins on this machine."""
    source = spec.python_path[0] if spec.python_path else ""
    return Manifest(
        run_id=spec.run_id,
        runtime=runtime,
        members=spec.members,
        profile=spec.profile,
        sync_level=spec.sync_level,
        components=spec.components,
        service=spec.service,
        more_services=spec.more_services,
        source=source,
        model=spec.model,
        model_source=spec.model_source,
        source_digest=code_digest(source, spec.service, spec.system),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        host=platform.node(),
        boot_id=boot_id(),
        version=spec.version,
        system=spec.system,
        system_sha256=system_named(spec.system).digest,
        planted=spec.planted,
        compatibility=spec.compatibility,
        timeouts=spec.timeouts,
        max_sessions=spec.max_sessions,
        written=(CLUSTER_FILE, *((SECURITY_FILE,) if spec.tls or spec.credentials else ())),
    )
