"""Certificates and credentials of a cluster, and what of them its run folder keeps for the verdict."""

from upheaval.security.certificates import (
    CLIENT,
    create_certificates,
    create_for_cluster,
    names_of_cluster,
    run_openssl,
)
from upheaval.security.policy import copy_book, copy_files, files_of, require_certificates

__all__ = [
    "CLIENT",
    "copy_book",
    "copy_files",
    "create_certificates",
    "create_for_cluster",
    "files_of",
    "names_of_cluster",
    "require_certificates",
    "run_openssl",
]
