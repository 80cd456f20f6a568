"""The models that `--model` knows by a name. To add one, add its row."""

from typing import Final

from upheaval.checkers.models.append_list import AppendList
from upheaval.checkers.models.echo import Echo
from upheaval.checkers.models.fifo_queue import FifoQueue
from upheaval.checkers.models.grow_set import GrowSet
from upheaval.checkers.models.mutex import Mutex
from upheaval.checkers.models.register import Register
from upheaval.checkers.models.sequential import KeyModel
from upheaval.checkers.models.text import Text

WORKBENCH_MODEL: Final = KeyModel("workbench", (Register(), AppendList("list"), Echo()))
"""The registers, lists and echoes of the service `workbench`."""
REGISTER: Final = KeyModel("register", (Register(),))
LIST: Final = KeyModel("list", (AppendList("read", "list"),))
KV: Final = KeyModel("kv", (Text(),))
MUTEX: Final = KeyModel("mutex", (Mutex(),))
SET: Final = KeyModel("set", (GrowSet(),))
QUEUE: Final = KeyModel("queue", (FifoQueue(),))

KEY_MODELS: Final = {
    "workbench": WORKBENCH_MODEL,
    "register": REGISTER,
    "cas-register": REGISTER,
    "list": LIST,
    "kv": KV,
    "mutex": MUTEX,
    "set": SET,
    "queue": QUEUE,
}
