"""What changes a load, when the process of its users is gone already, or does not end."""

import os
import queue
import threading
from typing import Any

import pytest

from upheaval.errors import EnvironmentFault
from upheaval.load import users_process
from upheaval.load.settings import READY, LoadSettings, Progress
from upheaval.load.users_process import LoadHand


def test_a_rate_that_no_process_reads_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    hand = LoadHand()
    with hand.holding(os.fdopen(writer, "w")):
        hand.set_rate(5.0)
        hand.end()
        hand.set_rate(6.0)
    assert hand.is_ended


def test_a_load_that_is_over_has_no_rate_any_more() -> None:
    reader, writer = os.pipe()
    hand = LoadHand()
    with os.fdopen(reader) as written:
        with hand.holding(os.fdopen(writer, "w")):
            hand.set_rate(5.0)
        hand.set_rate(6.0)
        assert written.read() == '{"rate": 5.0}\n'


LIMIT_S = 30.0


class Unheard:
    """Implements `users_process.Listener`."""

    def ready(self) -> None:
        """Do nothing."""

    def progress(self, progress: Progress) -> None:
        """Do nothing."""


def test_users_that_do_not_give_up_the_processor_end_with_the_time_of_their_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(users_process, "END_MARGIN_S", 0.0)
    messages = queue.SimpleQueue[dict[str, Any] | None]()
    messages.put({READY: True})
    settings = LoadSettings("", "", 1, duration_s=0.1, timeout_s=0.0)
    # The end of the process, should nothing else end the wait.
    end = threading.Timer(LIMIT_S, messages.put, (None,))
    end.start()
    with pytest.raises(EnvironmentFault, match="one of them never yields the processor"):
        users_process._follow(messages, Unheard(), LoadHand(), settings)
    end.cancel()
