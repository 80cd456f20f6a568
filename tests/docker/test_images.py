"""The images: fit for use, built once, and each does its work in a container."""

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.built_images import output_of, require, running
from support.built_runs import good_run
from support.docker_runs import ENGINE_INTERVAL_S, upheaval
from upheaval import images
from upheaval.repository import REPOSITORY, Repository
from upheaval.runtimes.docker.engine import Client
from upheaval.waits import wait_until

ONE_MEMBER = json.dumps(
    {
        "member_id": 0,
        "profile": "test",
        "members": "0,127.0.0.1:9001,127.0.0.1:9002,127.0.0.1:9003,127.0.0.1:9004,127.0.0.1:9005",
    }
)

DIAL = ["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 9001), 0.5)"]

# The images with Java take minutes to make on a machine that has nothing of them yet.
FIT = [
    pytest.param(image, id=image.name, marks=pytest.mark.nightly if image in (images.ANALYSIS, images.AERON) else ())
    for image in images.IMAGES
]


@pytest.mark.parametrize("image", FIT)
def test_an_image_is_fit_for_use(engine: Client, image: images.Image) -> None:
    require(engine, image)
    assert images.problems_of(engine, image) == []


def test_what_is_built_from_these_sources_is_not_built_again(engine: Client, node_image: str) -> None:
    before = images.image_state(engine, images.NODE)
    said: list[str] = []
    after = images.build(engine, images.NODE, base=None, offline=True, say=said.append)
    assert after == before
    assert said == [f"{node_image} is built from these sources"]


def test_nothing_without_a_name_is_left_by_a_build(engine: Client, node_image: str) -> None:
    filters = {"dangling": True, "label": "upheaval.stage=node"}
    assert engine.images.list(filters=filters) == []


def test_the_command_line_tells_programs_what_there_is(node_image: str) -> None:
    listed = {each["image"]: each for each in json.loads(upheaval("images", "list", "--json").stdout)}
    assert listed.keys() == {image.name for image in images.IMAGES}
    assert listed["node"]["is_current"]
    assert 0 < listed["node"]["size_mb"] < listed["node"]["limit_mb"] == 240
    built = json.loads(upheaval("images", "build", "--json", "node").stdout)
    assert [each["id"] for each in built] == [listed["node"]["id"]]
    done = upheaval("images", "check", "--json", "node")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["problems"] == []


@pytest.mark.parametrize("changed", ["images/load/start.py", "harness/upheaval/load/users.py", "requirements/load.txt"])
def test_a_digest_covers_all_that_goes_in(tmp_path: Path, changed: str) -> None:
    for folder in (*images.LOAD.context, "requirements"):
        shutil.copytree(REPOSITORY.path(folder), tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    copied = Repository(tmp_path / "harness" / "upheaval")
    before = images.source_digest(images.LOAD)
    assert images.source_digest(images.LOAD, copied) == before
    with (tmp_path / changed).open("a") as file:
        file.write("# changed\n")
    assert images.source_digest(images.LOAD, copied) != before


def test_no_certificate_is_left_by_the_build(engine: Client, node_image: str) -> None:
    script = "find / -xdev -type f \\( -name '*.crt' -o -name '*.pem' -o -name 'ca-bundle*' \\) | sort"
    base = output_of(engine, images.OFFLINE_BASE, script)
    assert output_of(engine, node_image, script, user="0") == base
    added = set(output_of(engine, require(engine, images.LOAD), script, user="0")) - set(base)
    assert added == {"/opt/packages/certifi/cacert.pem"}


def test_a_member_may_write_nothing_but_its_volume_and_tmp(engine: Client, node_image: str) -> None:
    script = (
        "for f in / /opt/upheaval /etc /usr; do touch $f/x 2>/dev/null && echo wrote $f; done; touch /tmp/x && id -u"
    )
    assert output_of(engine, node_image, script) == ["10001"]


@pytest.fixture(scope="module")
def member_and_helper(engine: Client, node_image: str) -> Iterator[tuple[Any, Any]]:
    """A member that serves, and a container with the one capability NET_ADMIN in its network."""
    tag = require(engine, images.NETFAULT)
    with (
        running(
            engine,
            node_image,
            network_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            environment={"UPHEAVAL_CONFIG": ONE_MEMBER},
            tmpfs={"/tmp": ""},
        ) as member,
        running(
            engine,
            tag,
            network_mode=f"container:{member.id}",
            read_only=True,
            cap_drop=["ALL"],
            cap_add=["NET_ADMIN"],
            init=True,
        ) as helper,
    ):
        wait_until(
            lambda: member.exec_run(DIAL).exit_code == 0,
            timeout_s=240,
            describe=lambda: "no member",
            interval_s=ENGINE_INTERVAL_S,
        )
        yield member, helper


@pytest.mark.parametrize("tables", ["iptables", "iptables-nft"])
def test_packet_filters_work_in_the_network_of_a_member(member_and_helper: tuple[Any, Any], tables: str) -> None:
    """Of the member, which itself has no rights."""
    member, helper = member_and_helper
    rule = ["INPUT", "-p", "tcp", "--dport", "9001", "-j", "DROP"]
    assert helper.exec_run([tables, "-A", *rule]).output == b""
    assert b"TimeoutError" in member.exec_run(DIAL).output
    assert helper.exec_run([tables, "-D", *rule]).output == b""
    assert member.exec_run(DIAL).exit_code == 0


def test_the_test_build_without_a_bug_is_the_node(engine: Client) -> None:
    tag = require(engine, images.NODE_TEST)
    with running(engine, tag, network_mode="none", environment={"UPHEAVAL_CONFIG": ONE_MEMBER}) as member:
        health = ["python3", "-m", "upheaval_node.runtime.health"]
        wait_until(
            lambda: member.exec_run(health).exit_code == 0,
            timeout_s=240,
            describe=lambda: str(member.logs()),
            interval_s=ENGINE_INTERVAL_S,
        )


def test_the_test_build_refuses_a_bug_that_nobody_planted(engine: Client) -> None:
    tag = require(engine, images.NODE_TEST)
    environment = {"UPHEAVAL_CONFIG": ONE_MEMBER, "UPHEAVAL_PLANTED": "no-such-bug"}
    with running(engine, tag, network_mode="none", environment=environment) as member:
        assert member.wait(timeout=240)["StatusCode"] != 0
        assert "planted" in member.logs().decode()


def test_load_says_what_is_missing(engine: Client) -> None:
    with running(engine, require(engine, images.LOAD), network_mode="none") as load:
        assert load.wait(timeout=240)["StatusCode"] == 2
        assert load.logs().decode().startswith("upheaval-load: UPHEAVAL_ENDPOINTS is missing")


@pytest.mark.nightly
def test_analysis_judges_a_run_with_spark(engine: Client, tmp_path: Path) -> None:
    good_run().write(tmp_path / "run")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(tmp_path / "run", "run")
    container = engine.containers.create(
        require(engine, images.ANALYSIS),
        ["verify", "--engine", "spark", "--json", "run"],
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        tmpfs={"/tmp": "exec"},
    )
    try:
        container.put_archive("/var/lib/upheaval", packed.getvalue())
        container.start()
        status = container.wait(timeout=600)["StatusCode"]
        assert status == 0, container.logs().decode()
        assert json.loads(container.logs(stderr=False))["verdict"] == "valid"
    finally:
        container.remove(force=True, v=True)
