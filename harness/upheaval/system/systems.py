"""Finds the system under test that a text names, and where it runs. Only this module knows all systems."""

from collections.abc import Callable, Mapping
from typing import Final

from upheaval.errors import UsageError
from upheaval.records import OWN_SYSTEM, SPLIT
from upheaval.runtime_names import PROCESS
from upheaval.system.aeron import AERON, AeronSystem
from upheaval.system.aeron_launcher import require_aeron, require_program
from upheaval.system.cluster_spec import ClusterSpec
from upheaval.system.under_test import SystemInContainers, SystemUnderTest, UpheavalNode
from upheaval_node import __version__
from upheaval_node.suggestions import did_you_mean


def _own_node(version: str) -> SystemUnderTest:
    if version not in ("", __version__):
        raise UsageError(f"unknown version {version!r} of {OWN_SYSTEM}: this is {__version__}")
    return UpheavalNode()


_SYSTEMS: Final[Mapping[str, Callable[[str], SystemUnderTest]]] = {OWN_SYSTEM: _own_node, AERON: AeronSystem}
"""Creates each system for a version, empty for the default. Raises `UsageError` for an unknown version."""


def system_named(text: str) -> SystemUnderTest:
    """The system that `NAME` or `NAME:VERSION` names. Raises `UsageError` for an unknown one."""
    name, _, version = text.partition(":")
    make = _SYSTEMS.get(name)
    if make is None:
        known = ", ".join(_SYSTEMS)
        raise UsageError(f"unknown system {name!r}: use one of {known}{did_you_mean(name, _SYSTEMS)}")
    return make(version)


def in_containers(text: str) -> SystemInContainers:
    """The named system, which must run in containers. Raises `UsageError` otherwise."""
    system = system_named(text)
    if not isinstance(system, SystemInContainers):
        raise UsageError(f"system {text} does not run in containers")
    return system


def check_system(spec: ClusterSpec, runtime: str) -> None:
    """Raises `UsageError` for a system that is unknown, does not run in that runtime, or does not support the
    specification.
    """
    system = system_named(spec.system)
    if runtime not in system.runtimes:
        known = ", ".join(system.runtimes)
        raise UsageError(f"system {spec.system} does not run on the {runtime} runtime: use --runtime {known}")
    if spec.components == SPLIT and runtime not in system.split_runtimes:
        known = ", ".join(system.split_runtimes)
        raise UsageError(
            f"system {spec.system} has no components split on the {runtime} runtime: use --runtime {known}"
        )
    require_aeron(spec, runtime, is_aeron=isinstance(system, AeronSystem))
    system.check(spec)
    if runtime == PROCESS:
        require_program(spec, system.text)
