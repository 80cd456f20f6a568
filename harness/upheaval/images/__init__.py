"""The container images of the platform: which there are, how they are built, with a registry or without, and checked.

`catalogue` says what each image is, `sources` what goes into it, `packages` and `bases` fetch on the host what a build
must not, `cache` keeps, `building` builds, `checks` judges. None of them starts a cluster.
"""

from upheaval.images.building import ImageState as ImageState, build as build, image_state as image_state
from upheaval.images.catalogue import (
    AERON as AERON,
    ANALYSIS as ANALYSIS,
    IMAGES as IMAGES,
    LOAD as LOAD,
    NETFAULT as NETFAULT,
    NODE as NODE,
    NODE_TEST as NODE_TEST,
    OFFLINE_BASE as OFFLINE_BASE,
    PROMETHEUS as PROMETHEUS,
    TOXIPROXY as TOXIPROXY,
    Image as Image,
    image_named as image_named,
)
from upheaval.images.checks import problems_of as problems_of
from upheaval.images.own import build_own as build_own
from upheaval.images.sources import source_digest as source_digest
