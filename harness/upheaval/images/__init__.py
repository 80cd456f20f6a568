"""The container images of the platform: which there are, how they are built, with a registry or without, and checked.

`catalogue` says what each image is, `sources` what goes into it, `packages` and `bases` fetch on the host what a build
must not, `cache` keeps, `building` builds, `checks` judges. None of them starts a cluster.
"""

from upheaval.images.building import ImageState, build, image_state
from upheaval.images.catalogue import (
    ANALYSIS,
    IMAGES,
    LOAD,
    NETFAULT,
    NODE,
    NODE_TEST,
    OFFLINE_BASE,
    PROMETHEUS,
    TOXIPROXY,
    Image,
    image_named,
)
from upheaval.images.checks import problems_of
from upheaval.images.sources import source_digest

__all__ = [
    "ANALYSIS",
    "IMAGES",
    "LOAD",
    "NETFAULT",
    "NODE",
    "NODE_TEST",
    "OFFLINE_BASE",
    "PROMETHEUS",
    "TOXIPROXY",
    "Image",
    "ImageState",
    "build",
    "image_named",
    "image_state",
    "problems_of",
    "source_digest",
]
