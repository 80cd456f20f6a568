"""The commands that prepare machines, clusters and repositories: `images`, `certificates`, `doctor`, `init`, .."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upheaval.cli.parsing import ClusterOptions, Commands, JsonOptions, json_option
from upheaval_chaos.options import option


def _names() -> Any:
    return option(nargs="*", metavar="NAME", help="names of images (default: all but aeron and node-test)")


def _aeron_version() -> Any:
    return option("--aeron-version", metavar="VERSION", help="version of Aeron in the image aeron")


@dataclass(frozen=True)
class BuildOptions:
    offline: bool = option("--offline", help="use no registry: make the base images here (needs debootstrap, go, root)")
    base: str | None = option("--base", metavar="IMAGE", help="another base image, for a single image")
    names: tuple[str, ...] = _names()
    aeron_version: str | None = _aeron_version()
    json: bool = json_option()


@dataclass(frozen=True)
class OwnImageOptions:
    folder: Path = option(metavar="FOLDER", help="the service's folder, with requirements.txt")
    tag: str = option("--tag", required=True, metavar="IMAGE", help="the name of the image, such as bank:1")
    ignore: tuple[str, ...] = option(
        "--ignore", action="append", default=[], metavar="PATTERN", help="files to leave out; may be repeated"
    )
    offline: bool = option("--offline", help="build the node's image as `images build --offline` does")
    json: bool = json_option()


@dataclass(frozen=True)
class CheckImagesOptions:
    names: tuple[str, ...] = _names()
    aeron_version: str | None = _aeron_version()
    json: bool = json_option()


@dataclass(frozen=True)
class ComposeOptions:
    name: str | None = option(nargs="?", metavar="NAME", help="a compose file (default: list them)")
    json: bool = json_option("print the list as JSON")


@dataclass(frozen=True)
class InitOptions:
    folder: Path = option(metavar="FOLDER", help="a new or empty folder")
    java: bool = option("--java", help="a service in Java on members of Aeron Cluster, built by Maven")
    json: bool = json_option("print the folder and its files as JSON")


@dataclass(frozen=True)
class DoctorOptions:
    area: str | None = option(
        nargs="?", metavar="AREA", help="docker, aeron, links, host, lake, spark, load or ui (default: all)"
    )
    json: bool = json_option()


@dataclass(frozen=True)
class CertificatesOptions:
    dir: Path = option("--dir", required=True, metavar="FOLDER", help="where they are written")
    members: int = option("--members", default=3, help="1 to 9 (default 3)")
    days: int = option("--days", default=365, help="days of validity (default 365)")
    renew: bool = option("--renew", help="issue new certificates from the existing authority")
    json: bool = json_option()


@dataclass(frozen=True)
class UserOptions:
    principal: str = option(help="the user's name")
    file: Path = option("--file", required=True, help="the cluster's credentials file, made when missing")
    out: Path = option("--out", required=True, help="the new file with the user's secret, for the client")
    role: tuple[str, ...] = option(
        "--role", action="append", default=[], choices=["admin", "backup"], help="a role of the user; may be repeated"
    )
    json: bool = json_option()


@dataclass(frozen=True)
class CompletionOptions:
    shell: str = option(choices=["bash", "zsh", "fish"], help="the shell")


def add_commands(commands: Commands) -> None:
    """Add the group."""
    commands.group("build")
    images = commands.add_several("images", "list, build and check the container images")
    images.add("list", "list the images that the Docker engine has", JsonOptions, "images:list_images")
    images.add("build", "build all images, or those named, unless they are current", BuildOptions, "images:build")
    images.add("own", "build an image of your service, with its packages", OwnImageOptions, "images:own")
    images.add(
        "check",
        "check that images exist, are current, within the size limit, and start",
        CheckImagesOptions,
        "images:check",
    )
    commands.add(
        "compose",
        "print a compose file, or list them: `upheaval compose NAME > compose.yaml`",
        ComposeOptions,
        "compose:compose",
    )
    commands.add(
        "init",
        "make your repository: a service, its model, tests, load and CI",
        InitOptions,
        "init:init",
    )
    certificates = commands.add_several("certificates", "make a certificate authority and certificates, or reload them")
    certificates.add(
        "create", "make certificates for members, clients and backups", CertificatesOptions, "security:create"
    )
    credentials = commands.add_several("credentials", "add users to a credentials file, or reload it")
    credentials.add("add", "add a user to the credentials file", UserOptions, "security:add")
    for actions in (certificates, credentials):
        actions.add(
            "reload", "have running members reload certificates and credentials", ClusterOptions, "security:reload"
        )
    commands.add(
        "completion", "print the script that completes commands in a shell", CompletionOptions, "completion:completion"
    )
    commands.add(
        "doctor",
        "say what this machine has, which commands will work, and how to install what is missing",
        DoctorOptions,
        "doctor:doctor",
    )
