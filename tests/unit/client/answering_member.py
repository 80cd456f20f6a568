"""A member of one for the tests of drivers: real sockets in a thread of its own, and no consensus."""

import threading
from random import Random

from upheaval_node.media.api import Message, Publication
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.service.services.workbench import Workbench
from upheaval_node.settings import MediaSettings
from upheaval_node.types import NEVER_NS, Now


class Member:
    """A member of one in a thread of its own: opens every session, and answers with the workbench unless `mute`.

    While it `holds`, answers are made, but stay here.
    """

    def __init__(self) -> None:
        self.loop = Loop()
        self.network = SelectorNetwork(self.loop)
        self.media = MediaDriver(self.network, StaticResolver(), MediaSettings(), Random(7), None)
        self.ingress = self.media.add_subscription("aeron:tcp?endpoint=127.0.0.1:0", 101)
        self.service = Workbench()
        self.egress: dict[int, Publication] = {}
        self.owed: list[tuple[int, bytes]] = []
        self.held: list[tuple[int, bytes]] = []
        self.mute = False
        self.holds = False
        self.position = 0
        self.keep_alive_count = 0
        self.ignored_count = 0
        self.endpoint = ""
        self.cycle = DutyCycle(self.loop, SystemClock(), (self.media, self))
        self.cycle.run_once(0)
        assert self.ingress.resolved_endpoint is not None
        self.endpoint = self.ingress.resolved_endpoint
        self.thread = threading.Thread(target=self.cycle.run, daemon=True)

    def do_work(self, now: Now) -> int:
        work = self.ingress.poll(self._on_message, 10)
        for owed in list(self.owed):
            session_id, message = owed
            if self.egress[session_id].offer(message) > 0:
                self.owed.remove(owed)
                work += 1
        return work

    def next_deadline_ns(self) -> int:
        return 0 if self.owed else NEVER_NS

    def release_reversed(self) -> None:
        """Send the answers that were held, the last one first."""
        self.holds = False
        self.loop.call_from_thread(lambda: self.owed.extend(reversed(self.held)))

    def stop(self) -> None:
        self.cycle.request_stop()
        self.thread.join(5)
        assert not self.thread.is_alive()
        self.media.close()
        self.network.drain(100_000_000)
        self.loop.close()

    def _on_message(self, message: Message) -> None:
        decoded = cm.SCHEMA.decode(message.payload)
        if isinstance(decoded, cm.SessionConnectRequest):
            session_id = len(self.egress) + 1
            self.egress[session_id] = self.media.add_publication(decoded.response_channel, decoded.response_stream_id)
            event = cm.SessionEvent(
                cluster_session_id=session_id,
                correlation_id=decoded.correlation_id,
                leadership_term_id=1,
                leader_member_id=0,
                code=cm.EventCode.OK,
            )
            self.owed.append((session_id, cm.SCHEMA.encode(event)))
        elif isinstance(decoded, cm.SessionKeepAlive):
            self.keep_alive_count += 1
        elif isinstance(decoded, cm.SessionMessageHeader) and self.mute:
            self.ignored_count += 1
        elif isinstance(decoded, cm.SessionMessageHeader):
            self.position += 96
            response = self.service.execute(message.payload[32:], self.position)
            session_id = decoded.cluster_session_id
            answers = self.held if self.holds else self.owed
            answers.append((session_id, pack_session_header(1, session_id, 0) + response))
