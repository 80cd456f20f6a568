"""Who made something: an owner is gone only when that is certain."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from upheaval.runtimes.owner import Owner, process_start


def test_this_process_is_not_gone_and_survives_a_text() -> None:
    me = Owner.me()
    assert me.pid == str(os.getpid())
    assert Owner.parse(str(me)) == me
    assert not me.is_gone


@pytest.mark.parametrize(
    ("changes", "is_gone"),
    [
        ({"start": "1"}, True),
        ({"pid": "4194305"}, True),
        ({"pid": ""}, True),
        ({"pid": "4194305", "place": "elsewhere"}, False),
    ],
)
def test_who_is_gone(changes: dict[str, str], is_gone: bool) -> None:
    assert replace(Owner.me(), **changes).is_gone is is_gone


@pytest.mark.parametrize(
    ("changes", "listens"),
    [
        ({}, True),
        ({"pid": "4194305"}, False),
        ({"place": "elsewhere"}, False),
        ({"place": f"{Owner.me().place} too"}, True),
    ],
)
def test_who_may_listen_here(changes: dict[str, str], *, listens: bool) -> None:
    """A process of another name space of this boot may; one of another boot does not."""
    assert replace(Owner.me(), **changes).listens_here is listens
    assert not Owner.parse("").listens_here


def test_what_is_no_owner_is_taken_for_alive() -> None:
    assert not Owner.parse("").is_gone
    assert not Owner.parse("what is this").is_gone


def test_a_process_that_ended_is_gone_before_anybody_asked_for_its_status() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        owner = replace(Owner.me(), pid=str(child.pid), start=process_start(child.pid) or "")
        assert not owner.is_gone
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert owner.is_gone
