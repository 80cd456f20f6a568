"""Certificates and credentials of a cluster, and what of them its run folder keeps for the verdict."""

from upheaval.security.certificates import (
    CLIENT as CLIENT,
    create_certificates as create_certificates,
    create_for_cluster as create_for_cluster,
    names_of_cluster as names_of_cluster,
    run_openssl as run_openssl,
)
from upheaval.security.policy import (
    copy_for_container as copy_for_container,
    files_of as files_of,
    require_certificates as require_certificates,
)
