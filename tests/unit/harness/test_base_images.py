"""The bases that images have without `--base` and `--offline`: public images that exist, as Dockerfiles name them."""

import re

import pytest

from support.stranger import ROOT
from upheaval.images import IMAGES, Image
from upheaval.images.catalogue import DEBIAN_SUITE, DebianBase


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_a_dockerfile_alone_has_the_base_of_the_catalogue(image: Image) -> None:
    text = (ROOT / image.dockerfile).read_text(encoding="utf-8")
    assert re.findall(r"^ARG BASE_IMAGE=(.+)$", text, re.MULTILINE) == [image.default_base]


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_an_official_base_that_packages_are_added_to_is_of_the_debian_that_has_them(image: Image) -> None:
    text = (ROOT / image.dockerfile).read_text(encoding="utf-8")
    if isinstance(image.offline_base, DebianBase) and "python3" in image.offline_base.include:
        assert image.default_base.endswith(f"-{DEBIAN_SUITE}")
    else:
        assert "apt-get" not in text


def test_toxiproxy_comes_from_where_its_authors_publish_it() -> None:
    """Docker Hub has versions up to 2.1.4."""
    (base,) = [image.default_base for image in IMAGES if image.name == "toxiproxy"]
    assert base.startswith("ghcr.io/shopify/toxiproxy:")
