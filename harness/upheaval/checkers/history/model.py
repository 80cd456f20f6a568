"""The sequential model of the workbench: the answers of a single copy that applies one operation after the other.

Registers and lists have separate name spaces. This module knows nothing of logs, histories or time.
"""

from typing import Final

from upheaval.records import Function, Json

_NESTED: Final = frozenset({list, dict})
# A member of an enumeration costs more to look up than to compare.
_READ: Final = Function.READ
_WRITE: Final = Function.WRITE
_CAS: Final = Function.CAS
_APPEND: Final = Function.APPEND
_LIST: Final = Function.LIST
_ECHO: Final = Function.ECHO


class Model:
    """An ideal replica of the services `register`, `append` and `echo`."""

    def __init__(self) -> None:
        self.registers: dict[str, Json] = {}
        self.lists: dict[str, list[Json]] = {}

    def apply(self, function: Function, key: str, value: Json) -> Json:
        """Run one operation and return its result (the live list for LIST: copy it before the next operation)."""
        if function == _READ:
            return self.registers.get(key)
        if function == _WRITE:
            self.registers[key] = value
            return None
        if function == _CAS:
            return self._compare_and_set(key, value)
        if function == _APPEND:
            self.lists.setdefault(key, []).append(value)
            return None
        if function == _LIST:
            return self.lists.get(key, [])
        if function == _ECHO:
            return value
        raise ValueError(f"{function} is no operation on one key")

    def _compare_and_set(self, key: str, value: Json) -> bool:
        assert isinstance(value, list)
        expected, new = value
        if not same(self.registers.get(key), expected):
            return False
        self.registers[key] = new
        return True


def same(left: Json, right: Json) -> bool:
    """Whether two JSON values are equal, types included at any depth: 1, 1.0 and true are three values."""
    if type(left) is not type(right) or left != right:
        return False
    if isinstance(left, list) and isinstance(right, list):
        types = list(map(type, left))
        if types != list(map(type, right)):
            return False
        return _NESTED.isdisjoint(types) or all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return all(same(value, right[name]) for name, value in left.items())
    return True
