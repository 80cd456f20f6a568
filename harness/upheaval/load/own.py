"""Chooses the load of a cluster: a drawn one of the shipped services, or custom users, which need locust."""

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.extras import install_line
from upheaval.python_path import on_python_path
from upheaval.scenario import OwnCode
from upheaval.workload import SERVICES, Load, LoadMaker
from upheaval_node.errors import UsageError as NodeUsageError
from upheaval_node.suggestions import did_you_mean

_SKIPS_PATCHES: Final = "LOCUST_SKIP_MONKEY_PATCH"


def load_maker(user: str, source: str = "") -> LoadMaker:
    """The factory of the load: with users of the class `user`, or of a drawn load if that is empty.

    The class is looked up in the folder `source` first. Raises `UsageError` if it does not exist, `EnvironmentFault`
    without locust.
    """
    if not user:
        return Load
    require_locust()
    with without_patches(), on_python_path([source] if source else []):
        from upheaval.load.stepped_users import UserLoad, runnable_user

        try:
            runnable_user(user)
        except NodeUsageError as error:
            raise UsageError(str(error)) from error
    return UserLoad


def own_code(
    service: str | None, user: str | None, model: str | None = None, schema: str | None = None
) -> OwnCode | None:
    """The service and users that the options of a command name, in the current folder; None without a service.

    Raises `UsageError` for options that do not go together.
    """
    for name, value in (("model", model), ("schema", schema)):
        if value is not None and ":" not in (service or ""):
            raise UsageError(f"--{name} is for a --service module:Class of your own")
    if service is None:
        if user is not None:
            raise UsageError("--user is for the users of a --service")
        return None
    if ":" not in service:
        if service not in SERVICES:
            hint = did_you_mean(service, SERVICES)
            raise UsageError(f"unknown service {service!r}: use {', '.join(SERVICES)} or module:Class{hint}")
        if user is not None:
            raise UsageError(f"service {service} has a workload of its own: leave out --user")
        return OwnCode(service)
    if user is None:
        raise UsageError(f"service {service} needs --user module:Class: locust users that ask it")
    return OwnCode(service, user, str(Path.cwd()), model or "", str(Path(schema).absolute()) if schema else "")


def check_user(user: str, source: str = "") -> None:
    """Raises `UsageError` for a name that is not a class of users."""
    with without_patches(), on_python_path([source] if source else []):
        from upheaval.load.users import find_user

        try:
            find_user(user)
        except NodeUsageError as error:
            raise UsageError(str(error)) from error


def require_locust() -> None:
    """Raises `EnvironmentFault` if locust is not installed."""
    if importlib.util.find_spec("locust") is None:
        raise EnvironmentFault(f"locust is not installed: {install_line('load')}")


@contextlib.contextmanager
def without_patches() -> Iterator[None]:
    """Keep locust from patching the standard library on import, which would change this running process."""
    before = os.environ.get(_SKIPS_PATCHES)
    os.environ[_SKIPS_PATCHES] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SKIPS_PATCHES]
        else:
            os.environ[_SKIPS_PATCHES] = before
