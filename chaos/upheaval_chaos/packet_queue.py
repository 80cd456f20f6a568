"""Packets that the kernel hands over in flight (NFQUEUE), by netlink, with the standard library only.

A binding would need a compiled package in the image, and only two messages of the protocol are used. This module does
not interpret packets. It needs the capability NET_ADMIN.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from typing import Final

_NETLINK_NETFILTER: Final = 12
_FORCED_RECEIVE_BUFFER: Final = 33
_PACKET, _VERDICT, _CONFIGURE = 0x300, 0x301, 0x302
_REQUEST, _ACKNOWLEDGE = 1, 4
_OF_COMMAND, _OF_PARAMETERS, _OF_LENGTH = 1, 2, 3
_BIND: Final = struct.pack(">BBH", 1, 0, 0)
_WHOLE_PACKETS: Final = struct.pack(">IB", 0xFFFF, 2)
_PACKETS_MAX: Final = struct.pack(">I", 8192)
_ID_OF_PACKET, _PAYLOAD = 1, 10
# Length and type of a message, and of an attribute; each starts at a multiple of four.
_HEAD: Final = struct.Struct("=IHHII")
_QUEUE: Final = struct.Struct(">BBH")
_ATTRIBUTE: Final = struct.Struct("=HH")
_BODY_OFFSET: Final = _HEAD.size + _QUEUE.size
_ID: Final = struct.Struct(">I")
_RULING: Final = struct.Struct(">II")
_RULING_ATTRIBUTE: Final = 2
_DROP, _ACCEPT = 0, 1
_BUFFER_LENGTH: Final = 4 << 20
_MESSAGE_MAX: Final = 1 << 17
_TAKEN_AT_ONCE: Final = 64

Take = Callable[[bytes], bool]
"""Returns whether an IP packet continues; otherwise the taker keeps it."""


class PacketQueue:
    """One queue of the network name space, for the running event loop."""

    def __init__(self, number: int, take: Take) -> None:
        """Raises `OSError` without the permission, or on a kernel without queues."""
        self._take = take
        self._message = bytearray(_MESSAGE_MAX)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
        queue = _QUEUE.pack(0, 0, number)
        head = _HEAD.pack(_BODY_OFFSET + _ATTRIBUTE.size + _RULING.size, _VERDICT, _REQUEST, 0, 0)
        self._ruling = head + queue + _ATTRIBUTE.pack(_ATTRIBUTE.size + _RULING.size, _RULING_ATTRIBUTE)
        try:
            self._socket.bind((0, 0))
            self._socket.setsockopt(socket.SOL_SOCKET, _FORCED_RECEIVE_BUFFER, _BUFFER_LENGTH)
            self._configure(queue, _OF_COMMAND, _BIND)
            self._configure(queue, _OF_PARAMETERS, _WHOLE_PACKETS)
            self._configure(queue, _OF_LENGTH, _PACKETS_MAX)
            self._socket.setblocking(False)
        except BaseException:
            self._socket.close()
            raise
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def close(self) -> None:
        """Close the queue; its packets are lost."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _configure(self, queue: bytes, kind: int, value: bytes) -> None:
        """Configure the queue before any packets arrive: the next message is the answer."""
        attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)
        length = _BODY_OFFSET + len(attribute)
        self._socket.send(_HEAD.pack(length, _CONFIGURE, _REQUEST | _ACKNOWLEDGE, 0, 0) + queue + attribute)
        (error,) = struct.unpack_from("=i", self._socket.recv(_MESSAGE_MAX), _HEAD.size)
        if error:
            raise OSError(-error, os.strerror(-error))

    def _read(self) -> None:
        rulings = bytearray()
        for _ in range(_TAKEN_AT_ONCE):
            try:
                length = self._socket.recv_into(self._message)
            except BlockingIOError:
                break
            except OSError:
                # The buffer was full, and the kernel has dropped packets.
                continue
            _, kind, *_ = _HEAD.unpack_from(self._message)
            if kind == _PACKET:
                number, packet = _parse(self._message, length)
                rulings += self._ruling + _RULING.pack(_ACCEPT if self._take(packet) else _DROP, number)
        if rulings:
            self._socket.send(rulings)


def _parse(message: bytearray, end: int) -> tuple[int, bytes]:
    """The id of a packet, and the packet."""
    number, packet, at = 0, b"", _BODY_OFFSET
    while at < end:
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _ID_OF_PACKET:
            (number,) = _ID.unpack_from(message, at + _ATTRIBUTE.size)
        elif kind == _PAYLOAD:
            packet = bytes(message[at + _ATTRIBUTE.size : at + length])
        at += (length + 3) & ~3
    return number, packet
