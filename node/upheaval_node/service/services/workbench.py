"""The workbench: echo, register and append in one service, so that one cluster serves every workload."""

from upheaval_node.service.services.append import Lists
from upheaval_node.service.services.echo import echo
from upheaval_node.service.services.encoding import Operation
from upheaval_node.service.services.operations import OperationService
from upheaval_node.service.services.register import Registers


class Workbench(OperationService):
    """All operations. Registers and lists are apart: a key may be both a register and a list."""

    def __init__(self) -> None:
        self.registers = Registers()
        self.lists = Lists()
        super().__init__({Operation.ECHO: echo, **self.registers.handlers, **self.lists.handlers})
