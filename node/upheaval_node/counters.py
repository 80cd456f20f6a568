"""Counters: 64-bit numbers with a type, a key and a label, in the layout of Aeron's cnc.dat (Aeron driver: counters).

Value record n is at 128 n of the values buffer, metadata record n at 512 n of the metadata buffer. The buffers are
given; whether they are a memory-mapped file is not known here. Every record has one writer: components that share the
buffers allocate from disjoint ranges of ids.
"""

import struct
from collections import deque
from collections.abc import Callable
from typing import Final

from upheaval_node.bell import Bell
from upheaval_node.errors import UsageError

VALUE_LENGTH: Final = 128
METADATA_LENGTH: Final = 512
MAX_KEY_LENGTH: Final = 112
MAX_LABEL_LENGTH: Final = 380

STATE_UNUSED: Final = 0
STATE_ALLOCATED: Final = 1
STATE_RECLAIMED: Final = -1

# Archive counters.
RECORDING_POSITION: Final = 100
ARCHIVE_ERRORS: Final = 101
ARCHIVE_CONTROL_SESSIONS: Final = 102
ARCHIVE_RECORDING_SESSIONS: Final = 111
ARCHIVE_REPLAY_SESSIONS: Final = 112
ARCHIVE_CONTROL_SESSION: Final = 113

# Cluster counters.
CONSENSUS_MODULE_STATE: Final = 200
CLUSTER_NODE_ROLE: Final = 201
CONTROL_TOGGLE: Final = 202
COMMIT_POSITION: Final = 203
RECOVERY_STATE: Final = 204
SNAPSHOT_COUNT: Final = 205
ELECTION_STATE: Final = 207
BACKUP_STATE: Final = 208
BACKUP_LIVE_LOG_POSITION: Final = 209
BACKUP_QUERY_DEADLINE: Final = 210
BACKUP_ERRORS: Final = 211
CLUSTER_ERRORS: Final = 212
CLIENT_TIMEOUT_COUNT: Final = 213
CONTAINER_ERRORS: Final = 215
STANDBY_SNAPSHOTS_RECEIVED: Final = 232
NODE_CONTROL_TOGGLE: Final = 233
TOTAL_SNAPSHOT_DURATION: Final = 234
TOTAL_SNAPSHOT_DURATION_EXCEEDED: Final = 235
SERVICE_SNAPSHOT_DURATION: Final = 236
SERVICE_SNAPSHOT_DURATION_EXCEEDED: Final = 237
ELECTION_COUNT: Final = 238
LEADERSHIP_TERM_ID: Final = 239
BACKUP_SNAPSHOTS_RETRIEVED: Final = 240
CLUSTER_SESSION: Final = 241

# Counters of our own, far above the ranges that Aeron reserves for driver, archive and cluster (up to 299).
OPEN_SESSIONS: Final = 10_200
COMMIT_LATENCY_BUCKET: Final = 10_201
COMMIT_LATENCY_SUM: Final = 10_202
LOG_RECORDING_ID: Final = 10_203
IGNORED_MESSAGES: Final = 10_204
TLS_REFUSED: Final = 10_205

# Driver counters.
SYSTEM_COUNTER: Final = 0

# A freed id is given out again only when this many others were freed after it, so that a reader that still looks at
# it sees that it is gone (Aeron waits a second instead; allocation here has no clock).
REUSE_DISTANCE: Final = 64

_VALUE_WORDS: Final = VALUE_LENGTH // 8
_METADATA_INTS: Final = METADATA_LENGTH // 4
_TYPE_INT: Final = 1
_STEP: Final = 64
"""Records read at once."""
_METADATA_HEAD: Final = struct.Struct("<iq")
_LABEL_HEAD: Final = struct.Struct("<i")
_KEY_OFFSET: Final = 16
_LABEL_OFFSET: Final = 128
_NOT_FREE_TO_REUSE: Final = (1 << 63) - 1


class Counter:
    """One counter, to read and, for its owner, to write.

    A counter from `find` is a view of one that another component may own. Reading it is always safe; `is_closed` says
    whether its owner has freed it.
    """

    __slots__ = ("_counters", "_index", "_registration_id", "_words", "id")

    def __init__(self, counters: "Counters", counter_id: int) -> None:
        self.id: Final = counter_id
        self._counters = counters
        self._words = counters.value_words
        self._index = counter_id * _VALUE_WORDS
        self._registration_id = self._words[self._index + 1]

    def get(self) -> int:
        """The value; of a counter that was freed, whatever its record holds now."""
        return self._words[self._index]

    def set(self, value: int) -> None:
        """Write the value, and ring for it if that changed it."""
        if self._words[self._index] != value:
            self._words[self._index] = value
            self._counters.on_change(self.id)

    def set_max(self, value: int) -> bool:
        """Raise the counter to `value`; returns whether that changed it."""
        if value <= self._words[self._index]:
            return False
        self.set(value)
        return True

    def increment(self, amount: int = 1) -> int:
        """Add, and return the value before."""
        before = self._words[self._index]
        self.set(before + amount)
        return before

    def compare_and_set(self, expected: int, value: int) -> bool:
        """Set if the value is `expected`. Only against writers of this process: others need a lock around it."""
        if self._words[self._index] != expected:
            return False
        self.set(value)
        return True

    @property
    def registration_id(self) -> int:
        """Distinguishes counters that had the same id one after the other (Aeron: registration id)."""
        return self._registration_id

    @property
    def owner_id(self) -> int:
        """The id of the client that allocated it, 0 where none was given (Aeron: owner id)."""
        return self._words[self._index + 2]

    @property
    def reference_id(self) -> int:
        """What the counter belongs to besides its key, 0 for nothing (Aeron: reference id)."""
        return self._words[self._index + 3]

    @property
    def is_closed(self) -> bool:
        """The counter was freed, or its id was given to another counter."""
        is_same = self._words[self._index + 1] == self._registration_id
        return not is_same or self._counters.state(self.id) != STATE_ALLOCATED

    def close(self) -> None:
        """Free the counter. Only its owner may; freeing twice does nothing."""
        if not self.is_closed:
            self._counters.free(self.id)


class Counters:
    """Reads all counters of a pair of buffers, and allocates those with ids in `[first_id, limit)`.

    `changes` grows by one whenever a counter is set to another value through this instance.
    """

    def __init__(self, values: memoryview, metadata: memoryview, first_id: int = 0, limit: int | None = None) -> None:
        capacity = min(len(values) // VALUE_LENGTH, len(metadata) // METADATA_LENGTH)
        self.capacity: Final = capacity
        self.changes = 0
        self.value_words: Final = values.cast("B")[: capacity * VALUE_LENGTH].cast("q")
        self._metadata = metadata.cast("B")[: capacity * METADATA_LENGTH]
        self._ints = self._metadata.cast("i")
        self._first_id = first_id
        self._limit = capacity if limit is None else min(limit, capacity)
        if not 0 <= first_id <= self._limit:
            raise UsageError(f"counter ids from {first_id} are not within {self._limit}")
        self._next_id = first_id
        self._freed: deque[int] = deque()
        self._bells: dict[int, list[Bell]] = {}
        self._bells_of: dict[int, list[Bell]] = {}
        self._registrations = first_id << 32

    @classmethod
    def in_memory(cls, count: int = 256) -> "Counters":
        """Counters in plain memory, for tests, simulations and members in one process."""
        return cls(memoryview(bytearray(count * VALUE_LENGTH)), memoryview(bytearray(count * METADATA_LENGTH)))

    def allocate(
        self,
        type_id: int,
        key: bytes,
        label: str,
        initial: int = 0,
        *,
        registration_id: int | None = None,
        owner_id: int = 0,
        reference_id: int = 0,
    ) -> Counter:
        """A new counter. The label is cut to 380 characters.

        `registration_id` is a number of our own by default; it distinguishes counters with a reused id. Raises
        `UsageError` for a key above 112 bytes or when the range of ids is used up.
        """
        if len(key) > MAX_KEY_LENGTH:
            raise UsageError(f"counter key of {len(key)} bytes")
        counter_id = self._take_id()
        if registration_id is None:
            self._registrations += 1
            registration_id = self._registrations
        word = counter_id * _VALUE_WORDS
        self.value_words[word : word + 4] = memoryview(
            struct.pack("<qqqq", initial, registration_id, owner_id, reference_id)
        ).cast("q")
        text = label.encode("ascii", "replace")[:MAX_LABEL_LENGTH]
        start = counter_id * METADATA_LENGTH
        record = self._metadata[start : start + METADATA_LENGTH]
        _METADATA_HEAD.pack_into(record, 4, type_id, _NOT_FREE_TO_REUSE)
        record[_KEY_OFFSET:_LABEL_OFFSET] = key.ljust(MAX_KEY_LENGTH, b"\0")
        _LABEL_HEAD.pack_into(record, _LABEL_OFFSET, len(text))
        record[_LABEL_OFFSET + 4 : _LABEL_OFFSET + 4 + len(text)] = text
        # The state goes last: it is what makes the record visible to other processes.
        self._ints[counter_id * _METADATA_INTS] = STATE_ALLOCATED
        if type_id in self._bells:
            self._bells_of[counter_id] = self._bells[type_id]
        else:
            self._bells_of.pop(counter_id, None)
        self.on_change(counter_id)
        return Counter(self, counter_id)

    def ring(self, bell: Bell, *type_ids: int) -> None:
        """Ring when a counter of one of these types is made, set through this instance to another value, or freed."""
        for type_id in type_ids:
            self._bells.setdefault(type_id, []).append(bell)
        for counter_id in self.allocated_ids():
            if self.type_id(counter_id) in type_ids:
                self._bells_of[counter_id] = self._bells[self.type_id(counter_id)]

    def watch(self, counter_id: int, bell: Bell) -> None:
        """Ring when this counter is set through this instance to another value, or freed, until `unwatch`."""
        self._bells_of[counter_id] = [*self._bells_of.get(counter_id, ()), bell]

    def unwatch(self, counter_id: int, bell: Bell) -> None:
        """Undo one `watch`; nothing to do when the counter was freed meanwhile and another has its id."""
        bells = list(self._bells_of.get(counter_id, ()))
        if bell in bells:
            bells.remove(bell)
            self._bells_of[counter_id] = bells

    def on_change(self, counter_id: int) -> None:
        """A counter of this instance changed."""
        self.changes += 1
        for bell in self._bells_of.get(counter_id, ()):
            bell.rung = True

    def find(self, type_id: int, key_prefix: bytes = b"", registration_id: int | None = None) -> Counter | None:
        """The first allocated counter of that type whose key starts with `key_prefix`, of any owner."""
        states = self._states()
        types = self._ints[_TYPE_INT : len(states) * _METADATA_INTS : _METADATA_INTS].tolist()
        for counter_id, state in enumerate(states):
            if types[counter_id] != type_id or state != STATE_ALLOCATED:
                continue
            counter = Counter(self, counter_id)
            if self.key(counter_id).startswith(key_prefix) and registration_id in (None, counter.registration_id):
                return counter
        return None

    def value_of(self, type_id: int, key_prefix: bytes = b"") -> int | None:
        """The value of the counter that `find` returns; None if there is none."""
        counter = self.find(type_id, key_prefix)
        return None if counter is None else counter.get()

    def get(self, counter_id: int) -> Counter | None:
        """The allocated counter with that id, if there is one."""
        if not 0 <= counter_id < self.capacity or self.state(counter_id) != STATE_ALLOCATED:
            return None
        return Counter(self, counter_id)

    def for_each(self, visit: Callable[[Counter, int, bytes, str], None]) -> None:
        """Call `visit(counter, type id, key, label)` for every allocated counter."""
        for counter_id in self.allocated_ids():
            visit(Counter(self, counter_id), self.type_id(counter_id), self.key(counter_id), self.label(counter_id))

    def allocated_ids(self) -> list[int]:
        """The ids of all allocated counters, ascending."""
        return [index for index, state in enumerate(self._states()) if state == STATE_ALLOCATED]

    def _states(self) -> list[int]:
        """Of all records up to the first unused one. Few of thousands are in use, so they are read in steps."""
        states: list[int] = []
        while len(states) < self.capacity:
            start, end = len(states), len(states) + _STEP
            states += self._ints[start * _METADATA_INTS : end * _METADATA_INTS : _METADATA_INTS].tolist()
            if STATE_UNUSED in states[start:]:
                return states[: states.index(STATE_UNUSED)]
        return states

    def state(self, counter_id: int) -> int:
        """STATE_UNUSED, STATE_ALLOCATED or STATE_RECLAIMED; scans end at the first unused record."""
        return self._ints[counter_id * _METADATA_INTS]

    def type_id(self, counter_id: int) -> int:
        """The type of the record, whether it is allocated or not."""
        return self._ints[counter_id * _METADATA_INTS + _TYPE_INT]

    def key(self, counter_id: int) -> bytes:
        """All 112 bytes of the key, zeros after what was given."""
        start = counter_id * METADATA_LENGTH + _KEY_OFFSET
        return bytes(self._metadata[start : start + MAX_KEY_LENGTH])

    def label(self, counter_id: int) -> str:
        """The label, at most 380 characters; what is not ASCII is replaced."""
        start = counter_id * METADATA_LENGTH + _LABEL_OFFSET
        length = max(0, min(self._ints[start // 4], MAX_LABEL_LENGTH))
        return bytes(self._metadata[start + 4 : start + 4 + length]).decode("ascii", "replace")

    def free(self, counter_id: int) -> None:
        """Give an id of this instance's range back; its key is cleared."""
        if not self._first_id <= counter_id < self._limit:
            raise UsageError(f"counter {counter_id} belongs to another process")
        start = counter_id * METADATA_LENGTH
        self._ints[counter_id * _METADATA_INTS] = STATE_RECLAIMED
        struct.pack_into("<q", self._metadata, start + 8, 0)
        self._metadata[start + _KEY_OFFSET : start + _LABEL_OFFSET] = bytes(MAX_KEY_LENGTH)
        self._freed.append(counter_id)
        self.on_change(counter_id)

    def reserve_up_to(self, count: int) -> None:
        """Mark unused records below `count` as reclaimed, in fresh buffers that several components will share.

        Readers (Aeron's included) stop at the first unused record; without this they would never see the counters of
        a range whose predecessor has room left.
        """
        for counter_id in range(min(count, self.capacity)):
            if self.state(counter_id) == STATE_UNUSED:
                self._ints[counter_id * _METADATA_INTS] = STATE_RECLAIMED

    def _take_id(self) -> int:
        if len(self._freed) > REUSE_DISTANCE:
            return self._freed.popleft()
        while self._next_id < self._limit:
            counter_id = self._next_id
            self._next_id += 1
            if self.state(counter_id) != STATE_ALLOCATED:
                return counter_id
        if self._freed:
            return self._freed.popleft()
        raise UsageError(f"no counter id left between {self._first_id} and {self._limit}")


# --- keys and labels ----------------------------------------------------------------------------------------------


def cluster_key(cluster_id: int, service_id: int | None = None) -> bytes:
    """Key of the cluster's counters: the cluster id, for a service's counters followed by the service id."""
    return struct.pack("<i", cluster_id) if service_id is None else struct.pack("<ii", cluster_id, service_id)


def service_id_of_key(key: bytes) -> int:
    """The service id in the key of a service's counter."""
    service_id: int = struct.unpack_from("<i", key, 4)[0]
    return service_id


def cluster_label(name: str, cluster_id: int, service_id: int | None = None) -> str:
    """`name - clusterId=0`, for a service's counters with ` serviceId=0` after it."""
    service = "" if service_id is None else f" serviceId={service_id}"
    return f"{name} - clusterId={cluster_id}{service}"


def latency_bucket_key(cluster_id: int, bound_ns: int) -> bytes:
    """Key of one bucket of a histogram: the cluster id, and the longest time that the bucket counts."""
    return struct.pack("<iq", cluster_id, bound_ns)


def latency_bucket_bound(key: bytes) -> int:
    """The longest time in nanoseconds that the bucket with this key counts."""
    bound_ns: int = struct.unpack_from("<q", key, 4)[0]
    return bound_ns


def recording_position_key(recording_id: int, session_id: int, source_identity: str, archive_id: int) -> bytes:
    """Key of a recording position; a source identity that does not fit is cut. Search by `recording_key_prefix`."""
    room = MAX_KEY_LENGTH - 16 - 8
    source = source_identity.encode("ascii", "replace")[:room]
    return struct.pack("<qii", recording_id, session_id, len(source)) + source + struct.pack("<q", archive_id)


def recording_key_prefix(recording_id: int) -> bytes:
    """How the key of a RECORDING_POSITION counter begins: the recording id (Aeron archive: rec-pos)."""
    return struct.pack("<q", recording_id)


def recording_position_label(recording_id: int, session_id: int, stream_id: int, channel: str, archive_id: int) -> str:
    """The label of a RECORDING_POSITION counter, as Aeron's archive writes it."""
    return f"rec-pos: {recording_id} {session_id} {stream_id} {channel} - archiveId={archive_id}"


def recovery_state_key(
    leadership_term_id: int, log_position: int, timestamp: int, cluster_id: int, snapshot_recording_ids: list[int]
) -> bytes:
    """Key of the recovery state: what services read to know from which snapshot they start, by service id."""
    count = len(snapshot_recording_ids)
    head = struct.pack("<qqqii", leadership_term_id, log_position, timestamp, cluster_id, count)
    return head + struct.pack(f"<{count}q", *snapshot_recording_ids)
