"""Which images there are: what goes into each, which base it has, and what is expected of it.

Values only; this module knows no engine, no files and no programs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from upheaval.aeron_jars import USUAL_VERSION, canonical_version
from upheaval.aeron_programs import AERON_LABEL, image_tag
from upheaval.errors import UsageError
from upheaval_node import __version__
from upheaval_node.suggestions import did_you_mean

DEBIAN_SUITE: Final = "bookworm"
TOXIPROXY_VERSION: Final = "2.12.0"
VOLUME: Final = "/var/lib/upheaval"
"""Of every image that has one: its processes write there, and elsewhere to /tmp at most."""


@dataclass(frozen=True, slots=True)
class DebianBase:
    """A base made by debootstrap from Debian's packages; `without` are folders that no image on it needs."""

    tag: str
    include: tuple[str, ...]
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GoBase:
    """A base that holds nothing but programs compiled by Go; `programs` maps package paths to file names."""

    tag: str
    version: str
    programs: tuple[tuple[str, str], ...]
    linker_flags: str


@dataclass(frozen=True, slots=True)
class Image:
    """One image. Without an `offline_base` its base is another image of ours, `parent`."""

    name: str
    context: tuple[str, ...]
    default_base: str
    offline_base: DebianBase | GoBase | None
    limit_mb: int
    parent: "Image | None" = None
    requirements: str | None = None
    """A requirements file with hashes; its packages are fetched by the host and go into the context as `packages/`."""
    without_wheels: tuple[str, ...] = ()
    """Packages of `requirements` that their authors publish as sources only."""
    imports: tuple[str, ...] = ()
    """Python modules that must be importable in it; none: it has no Python."""
    commands: tuple[tuple[str, ...], ...] = ()
    """Commands that must succeed in it without a network."""
    must_be_root: bool = False
    has_health_check: bool = True
    has_volume: bool = True
    is_on_demand: bool = False
    """Built and checked only when it is named."""
    aeron_version: str = ""
    """Whose jar, and our member program for it, the host puts into the context's `packages/`."""
    takes_compiled: bool = False
    """Whether the compiled modules of this machine go into it, when they are those of the sources."""

    @property
    def tag(self) -> str:
        """The name under which it is built and started, with the version of this release or of Aeron."""
        return image_tag(self.name, self.aeron_version or __version__)

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels, which the images built on it inherit."""
        return {AERON_LABEL: self.aeron_version} if self.aeron_version else {}

    @property
    def dockerfile(self) -> str:
        """Its Dockerfile, from the root of the repository."""
        return f"images/{self.name}/Dockerfile"


PYTHON_BASE: Final = DebianBase(f"upheaval/base:{DEBIAN_SUITE}", ("python3",))
OFFLINE_BASE: Final = PYTHON_BASE.tag
_PYTHON_IMAGE: Final = f"python:3.11-slim-{DEBIAN_SUITE}"
_OUR_PACKAGES: Final = (
    "node/upheaval_node",
    "harness/upheaval",
    "chaos/upheaval_chaos",
    "pipeline/upheaval_pipeline",
)

NODE: Final = Image(
    "node",
    # Services of users import the public names; of those, the ones that services need come from the node itself.
    ("images/node", "node/upheaval_node", "harness/upheaval/__init__.py"),
    _PYTHON_IMAGE,
    PYTHON_BASE,
    limit_mb=240,
    imports=("upheaval_node", "upheaval"),
    takes_compiled=True,
)

NODE_TEST: Final = Image(
    "node-test",
    ("images/node-test", "chaos/upheaval_chaos"),
    NODE.tag,
    None,
    limit_mb=250,
    parent=NODE,
    imports=("upheaval_node", "upheaval", "upheaval_chaos"),
    is_on_demand=True,
)

TOXIPROXY: Final = Image(
    "toxiproxy",
    ("images/toxiproxy",),
    f"ghcr.io/shopify/toxiproxy:{TOXIPROXY_VERSION}",
    GoBase(
        f"upheaval/base-toxiproxy:{TOXIPROXY_VERSION}",
        f"v{TOXIPROXY_VERSION}",
        (
            ("github.com/Shopify/toxiproxy/v2/cmd/server", "toxiproxy"),
            ("github.com/Shopify/toxiproxy/v2/cmd/cli", "toxiproxy-cli"),
        ),
        f"-s -w -X github.com/Shopify/toxiproxy/v2.Version={TOXIPROXY_VERSION}",
    ),
    limit_mb=60,
    commands=(("/toxiproxy", "-version"), ("/toxiproxy-cli", "--version")),
    has_volume=False,
)

NETFAULT: Final = Image(
    "netfault",
    ("images/netfault", "node/upheaval_node", "chaos/upheaval_chaos"),
    _PYTHON_IMAGE,
    DebianBase(f"upheaval/base-netfault:{DEBIAN_SUITE}", ("python3", "iptables")),
    limit_mb=220,
    imports=("upheaval_chaos.queue_agent",),
    commands=(("iptables-nft", "--version"), ("iptables-legacy", "--version")),
    must_be_root=True,
    has_health_check=False,
    has_volume=False,
)

LOAD: Final = Image(
    "load",
    ("images/load", "node/upheaval_node", "chaos/upheaval_chaos", "harness/upheaval"),
    _PYTHON_IMAGE,
    PYTHON_BASE,
    limit_mb=300,
    requirements="requirements/load.txt",
    imports=("locust", "upheaval.load.users"),
    has_volume=False,
)

JAVA_BASE: Final = DebianBase(f"upheaval/base-analysis:{DEBIAN_SUITE}", ("python3", "openjdk-17-jre-headless"))

ANALYSIS: Final = Image(
    "analysis",
    ("images/analysis", *_OUR_PACKAGES),
    _PYTHON_IMAGE,
    JAVA_BASE,
    limit_mb=1450,
    requirements="requirements/spark.txt",
    without_wheels=("pyspark",),
    imports=("pyspark", "pandas", "pyarrow", "deltalake", "duckdb", "sqlglot", "upheaval_pipeline"),
    commands=(("java", "-version"), ("upheaval", "--version")),
    has_health_check=False,
)

PROMETHEUS: Final = Image(
    "prometheus",
    ("images/prometheus",),
    "prom/prometheus:v2.53.0",
    DebianBase(
        f"upheaval/base-prometheus:{DEBIAN_SUITE}",
        ("prometheus",),
        without=("usr/share/javascript/moment-timezone/data",),
    ),
    limit_mb=250,
    commands=(("/bin/prometheus", "--version"), ("/bin/promtool", "--version")),
)

AERON: Final = Image(
    "aeron",
    (
        "images/aeron/Dockerfile",
        "images/aeron/shared-classes.txt",
        "images/aeron/start.py",
        "images/aeron/src/main",
        "node/upheaval_node",
        "chaos/upheaval_chaos",
        "harness/upheaval",
    ),
    _PYTHON_IMAGE,
    JAVA_BASE,
    limit_mb=600,
    imports=("upheaval.system.aeron_inside",),
    commands=(("java", "--dry-run", "-cp", "/opt/aeron/aeron-all.jar:/opt/aeron/classes", "upheaval.Member"),),
    is_on_demand=True,
    aeron_version=USUAL_VERSION,
)

IMAGES: Final = (NODE, TOXIPROXY, NETFAULT, LOAD, ANALYSIS, PROMETHEUS, NODE_TEST, AERON)


def image_named(name: str, aeron_version: str | None = None) -> Image:
    """With the members of that version of Aeron. Raises `UsageError` for a name that no image has."""
    for image in IMAGES:
        if image.name == name:
            if not image.aeron_version or aeron_version is None:
                return image
            return replace(image, aeron_version=canonical_version(aeron_version))
    known = [image.name for image in IMAGES]
    raise UsageError(f"unknown image {name!r}: use {', '.join(known)}{did_you_mean(name, known)}")
