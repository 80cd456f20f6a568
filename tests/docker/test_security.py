"""Members in containers with TLS and credentials; tests/integration has the same on processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import flows_security as flows
from support.docker_runs import left_of
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.system import ClusterSpec


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, node_image: str, engine: Client) -> Iterator[flows.Guarded]:
    """One cluster for all tests, of which the last one ends it and judges it."""
    folder = tmp_path_factory.mktemp("security")
    gate = flows.Gate(folder)
    cluster = DockerCluster.create(
        folder / "run", ClusterSpec(tls=str(gate.certificates), credentials=str(gate.credentials), image=node_image)
    )
    try:
        cluster.up()
        yield flows.Guarded(gate, cluster)
    finally:
        cluster.down()
    assert left_of(engine, cluster.config.run_id) == []


def test_only_those_of_the_credentials_file_get_a_session(guarded: flows.Guarded) -> None:
    flows.only_those_of_the_credentials_file_get_a_session(guarded)


def test_who_is_of_another_authority_is_refused_on_both_sides(guarded: flows.Guarded) -> None:
    flows.who_is_of_another_authority_is_refused_on_both_sides(guarded)


def test_who_shows_an_expired_certificate_or_none_is_refused(guarded: flows.Guarded, tmp_path: Path) -> None:
    flows.who_shows_an_expired_certificate_or_none_is_refused(guarded, tmp_path)


def test_certificates_are_renewed_under_load(guarded: flows.Guarded) -> None:
    flows.certificates_are_renewed_under_load(guarded)


def test_the_run_is_valid_and_one_with_somebody_else_in_it_is_not(guarded: flows.Guarded, tmp_path: Path) -> None:
    guarded.cluster.down()
    flows.the_run_is_valid_and_says_who_was_there(guarded)
    flows.a_run_with_somebody_else_in_it_is_invalid(guarded, tmp_path)
