"""The models that `--model` knows by name. To add a model, add its row."""

from typing import Final

from upheaval.checkers.history.models.append_list import AppendList
from upheaval.checkers.history.models.echo import Echo
from upheaval.checkers.history.models.fifo_queue import FifoQueue
from upheaval.checkers.history.models.grow_set import GrowSet
from upheaval.checkers.history.models.mutex import Mutex
from upheaval.checkers.history.models.register import Register
from upheaval.checkers.history.models.sequential import KeyModel
from upheaval.checkers.history.models.text import Text

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
