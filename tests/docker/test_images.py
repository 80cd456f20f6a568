"""The node's image: what is in it, and what is said when it cannot be built."""

import pytest

from upheaval import images
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.runtimes.docker.engine import Client


def test_the_image_is_fit_for_use(engine: Client, node_image: str) -> None:
    assert node_image == images.NODE.tag
    assert images.problems_of(engine, images.NODE) == []


def test_equal_sources_are_built_into_the_same_image(engine: Client, node_image: str) -> None:
    before = images.image_state(engine, images.NODE)
    after = images.build(engine, images.NODE, base=None, offline=True, say=print)
    assert after.is_current
    assert after.size_mb == before.size_mb < images.NODE.limit_mb


def test_no_certificate_is_left_by_the_build(engine: Client, node_image: str) -> None:
    base = _certificates(engine, images.OFFLINE_BASE)
    assert _certificates(engine, node_image) == base


def test_a_member_may_write_nothing_but_its_volume_and_tmp(engine: Client, node_image: str) -> None:
    script = (
        "for f in / /opt/upheaval /etc /usr; do touch $f/x 2>/dev/null && echo wrote $f; done; touch /tmp/x && id -u"
    )
    output = engine.containers.run(
        node_image,
        ["-c", script],
        entrypoint="sh",
        remove=True,
        read_only=True,
        network_mode="none",
        tmpfs={"/tmp": "", "/var/lib/upheaval": ""},
    )
    assert output.decode().split() == ["10001"]


def test_a_base_that_is_not_there_is_one_line(engine: Client) -> None:
    with pytest.raises(EnvironmentFault, match=r"upheaval/node.* failed|building upheaval/node") as raised:
        images.build(engine, images.NODE, base="upheaval/no-such-base:1", offline=False, say=print)
    assert "\n" not in str(raised.value)


def test_an_unknown_image_is_named() -> None:
    with pytest.raises(UsageError, match="no image 'nod': use node"):
        images.image_named("nod")


def _certificates(engine: Client, tag: str) -> list[str]:
    script = "find / -xdev -type f \\( -name '*.crt' -o -name '*.pem' -o -name 'ca-bundle*' \\) | sort"
    output = engine.containers.run(
        tag,
        ["-c", script],
        entrypoint="sh",
        user="0",
        remove=True,
        network_mode="none",
        tmpfs={"/var/lib/upheaval": ""},
    )
    return list(output.decode().split())
