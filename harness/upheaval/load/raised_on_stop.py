"""Has locust report what `on_stop` raises, as it reports what `on_start` and tasks raise: it only logs that."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from locust import TaskSet
from locust.exception import StopUser


def report_on_stop(user_class: type[Any]) -> None:
    """Have it reported for these users and their TaskSets, in this process. Call it once for a class."""
    for kind in dict.fromkeys(_kinds(user_class, ())):
        kind.on_stop = _reporting(kind.on_stop)


def _kinds(kind: type[Any], around: tuple[type[Any], ...]) -> Iterator[type[Any]]:
    """The class and the TaskSets in it; one may contain itself."""
    yield kind
    for task in kind.tasks:
        if isinstance(task, type) and task not in around:
            yield from _kinds(task, (*around, kind))


def _reporting(on_stop: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(on_stop)
    def reporting(self: Any) -> None:
        try:
            on_stop(self)
        except StopUser:
            raise
        except Exception as error:
            # A class that inherits it or calls its base's reports what leaves its own.
            if type(self).on_stop is reporting:
                user = self.user if isinstance(self, TaskSet) else self
                user.environment.events.user_error.fire(user_instance=user, exception=error, tb=error.__traceback__)
            raise

    return reporting
