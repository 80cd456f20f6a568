"""Accounts whose state depends on the machine, the interpreter or the member that runs them."""

import os
import platform
import sys
import weakref

from accounts import Accounts

from upheaval_node.service.api import ClusterRole


class _Cycle:
    """Only a garbage collector frees it."""

    def __init__(self):
        self.itself = self


class OnHost(Accounts):
    def answer(self, session, asked, timestamp):
        self.now["host"] = platform.node()
        return super().answer(session, asked, timestamp)


class PerProcessor(Accounts):
    def answer(self, session, asked, timestamp):
        self.now["shards"] = os.cpu_count()
        return super().answer(session, asked, timestamp)


class Weak(Accounts):
    """Counts objects that are not freed yet: a collection comes long before the last of ten thousand others."""

    def __init__(self):
        super().__init__()
        self.alive = weakref.WeakSet()

    def answer(self, session, asked, timestamp):
        self.alive.add(_Cycle())
        made = [[] for _ in range(10_000)]
        self.now["alive"] = len(self.alive) + len(made) - 10_000
        return super().answer(session, asked, timestamp)


class Seldom(Accounts):
    """Counts objects that are not freed yet, and makes few others."""

    def __init__(self):
        super().__init__()
        self.alive = weakref.WeakSet()

    def answer(self, session, asked, timestamp):
        self.alive.add(type("Node", (_Cycle,), {})())
        self.now["alive"] = len(self.alive)
        return super().answer(session, asked, timestamp)


class Deep(Accounts):
    def answer(self, session, asked, timestamp):
        self.now["limit"] = sys.getrecursionlimit()
        return super().answer(session, asked, timestamp)


class Everywhere(OnHost, PerProcessor, Weak, Deep):
    """Depends on all of these."""


class CountsAsLeader(Accounts):
    """Counts what it did as a leader: members differ."""

    def answer(self, session, asked, timestamp):
        self.now["led"] = self.now.get("led", 0) + (self.cluster.role is ClusterRole.LEADER)
        return super().answer(session, asked, timestamp)
