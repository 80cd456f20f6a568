"""The workbench service: echo, register and append in one, so that one cluster serves every workload."""

from collections.abc import Iterator
from itertools import chain

from upheaval_node.derivable import mypyc_attr
from upheaval_node.service.services.append import Lists
from upheaval_node.service.services.echo import echo
from upheaval_node.service.services.encoding import Operation
from upheaval_node.service.services.operations import OperationService
from upheaval_node.service.services.register import Registers
from upheaval_node.service.services.state import Record


@mypyc_attr(allow_interpreted_subclasses=True)
class Workbench(OperationService):
    """All operations of the three services. A key may be both a register and a list, which are independent."""

    def __init__(self) -> None:
        self.registers = Registers()
        self.lists = Lists()
        super().__init__({Operation.ECHO: echo, **self.registers.handlers, **self.lists.handlers})

    def records(self) -> Iterator[Record]:
        """The registers, then the lists."""
        return chain(self.registers.records(), self.lists.records())

    def load(self, record: Record) -> None:
        """Load a record. Raises `DecodeError` when it is neither a register nor a list value."""
        if not (self.registers.load(record) or self.lists.load(record)):
            super().load(record)
