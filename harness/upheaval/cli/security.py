"""`upheaval certificates` and `upheaval credentials`: what a cluster's members and clients show of themselves."""

import os
import secrets
from pathlib import Path

from upheaval.cli.answers import answer
from upheaval.cli.build_commands import CertificatesOptions, UserOptions
from upheaval.cli.parsing import ClusterOptions
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import MEMBERS_MAX, PRIVATE, mode_of, write_private
from upheaval.runtimes.opening import open_cluster
from upheaval.security import create_certificates, create_for_cluster, names_of_cluster
from upheaval_node.credentials import SALT_LENGTH, Credentials, check_principal, make_verifier
from upheaval_node.errors import NodeError

SECRET_LENGTH = 24


def create(options: CertificatesOptions) -> int:
    """A certificate authority and certificates for everybody, or new certificates of the authority that is there."""
    folder, members, days = options.dir, options.members, options.days
    if not 1 <= members <= MEMBERS_MAX:
        raise UsageError(f"--members {members}: a cluster has 1 to {MEMBERS_MAX} members")
    try:
        if options.renew:
            names = names_of_cluster(members)
            create_certificates(folder, names, days=days)
        else:
            names = create_for_cluster(folder, members, days=days)
    except OSError as error:
        raise EnvironmentFault(f"cannot make certificates in {folder}: {error.strerror}") from error
    facts = {"dir": str(folder), "names": list(names), "days": days}
    answer(f"{folder}: {', '.join(names)}, good for {days} days", facts, as_json=options.json)
    return 0


def reload(options: ClusterOptions) -> int:
    """Check certificates and credentials, then have every member and companion that runs read them."""
    with open_cluster(options.dir) as cluster:
        config = cluster.config
        if not config.tls and not config.credentials:
            raise UsageError(
                f"the cluster in {options.dir} has neither certificates nor credentials: start one with "
                "`upheaval up --tls --credentials FILE`"
            )
        if not cluster.is_running():
            raise UsageError(f"the cluster in {options.dir} is not running: members read these files when they start")
        nodes = list(cluster.reload_security())
    text = f"reloading {' and '.join(filter(None, (config.tls, config.credentials)))}: {', '.join(nodes)}"
    facts = {"tls": config.tls or None, "credentials": config.credentials or None, "nodes": nodes}
    answer(text, facts, as_json=options.json)
    return 0


def add(options: UserOptions) -> int:
    """A new principal with a secret that exists nowhere else."""
    principal, file, out = options.principal, options.file, options.out
    try:
        check_principal(principal)
        if out.absolute() == file.absolute():
            raise UsageError(f"{file} cannot hold both the credentials and a secret: give another --out")
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if principal.encode() in Credentials(text, str(file)):
            raise UsageError(f"{file} already has a user {principal!r}")
        secret = secrets.token_urlsafe(SECRET_LENGTH)
        verifier = make_verifier(secret, secrets.token_bytes(SALT_LENGTH), frozenset(options.role))
        _write_new(out, f"{principal}:{secret}\n")
        separator = "\n" if text and not text.endswith("\n") else ""
        write_private(file, f"{text}{separator}{principal}:{verifier}\n", mode=mode_of(file))
    except NodeError as error:
        raise UsageError(str(error)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not a text file") from error
    except OSError as error:
        raise EnvironmentFault(f"cannot write {error.filename}: {error.strerror}") from error
    facts = {"principal": principal, "file": str(file), "out": str(out)}
    answer(f"{principal} is in {file}; its secret is in {out}", facts, as_json=options.json)
    return 0


def _write_new(path: Path, text: str) -> None:
    """A file that only its owner reads. One that is there may hold another secret, and is left alone."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    except FileExistsError:
        raise UsageError(f"{path} exists: give another --out") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
