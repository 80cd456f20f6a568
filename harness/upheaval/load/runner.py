"""The process that runs locust users without a web page: `python -m upheaval.load.runner SETTINGS`.

A process of its own, because gevent has to patch the standard library before anything else is imported. It knows
endpoints and a history file; the cluster is its parent's.
"""

# ruff: noqa: E402 - gevent comes first
from gevent import monkey

monkey.patch_all()

import importlib
import sys
from typing import Any

import gevent
from locust.env import Environment

from upheaval.load.settings import LoadSettings, Row, Statistics
from upheaval.load.users import ClusterUser, LoadContext

# What ending may take beside the time-outs of connecting and of the operation: closing sessions, the scheduler's turns.
STOP_MARGIN_S = 5.0
LOOK_S = 0.01


def run(settings: LoadSettings) -> Statistics:
    """Spawn the users, let them work for the duration, and let each end the operation that it is in."""
    user_class = find_user(settings.user)
    context = user_class.context_of_load = LoadContext(settings)
    environment = Environment(user_classes=[user_class], stop_timeout=STOP_MARGIN_S)
    runner = environment.create_local_runner()
    try:
        runner.start(settings.users, spawn_rate=settings.spawn_rate)
        gevent.sleep(settings.duration_s)
        context.is_over = True
        with gevent.Timeout(2 * settings.timeout_s + STOP_MARGIN_S, False):
            while context.in_flight:
                gevent.sleep(LOOK_S)
    finally:
        runner.quit()
        context.history.close()
    return statistics(environment.stats)


def find_user(name: str) -> type[ClusterUser]:
    """The class that `module:Class` names."""
    module, _, class_name = name.partition(":")
    found = getattr(importlib.import_module(module), class_name)
    if not (isinstance(found, type) and issubclass(found, ClusterUser)):
        raise TypeError(f"{name} is not a subclass of upheaval.load.users.ClusterUser")
    return found


def statistics(stats: Any) -> Statistics:
    rows = tuple(_row(entry) for _, entry in sorted(stats.entries.items()))
    errors = {f"{error.name}: {error.error}": error.occurrences for error in stats.errors.values()}
    return Statistics(rows, _row(stats.total), errors)


def _row(entry: Any) -> Row:
    p50, p95, p99 = (float(entry.get_response_time_percentile(share) or 0) for share in (0.5, 0.95, 0.99))
    longest = float(entry.max_response_time or 0)
    return Row(entry.name, entry.num_requests, entry.num_failures, entry.total_rps, p50, p95, p99, longest)


if __name__ == "__main__":
    print(run(LoadSettings.from_json(sys.argv[1])).to_json())
