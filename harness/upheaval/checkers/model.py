"""The sequential model of the workbench: what one copy of it would answer, one operation after the other.

Registers and lists live in separate name spaces. This module knows nothing of logs, histories or time.
"""

from collections.abc import Sequence

from upheaval.records import Function, Json


class Model:
    """A replica of `register`, `append` and `echo` that nothing can go wrong with."""

    def __init__(self) -> None:
        self.registers: dict[str, Json] = {}
        self.lists: dict[str, list[Json]] = {}

    def apply(self, function: Function, key: str, value: Json) -> Json:
        """Run one operation and return its result (the live list for LIST: copy it before the next operation)."""
        match function:
            case Function.READ:
                return self.registers.get(key)
            case Function.WRITE:
                self.registers[key] = value
                return None
            case Function.CAS:
                return self._compare_and_set(key, value)
            case Function.APPEND:
                self.lists.setdefault(key, []).append(value)
                return None
            case Function.LIST:
                return self.lists.get(key, [])
            case Function.ECHO:
                return value
            case _:
                raise ValueError(f"{function} is no operation on one key")

    def _compare_and_set(self, key: str, value: Json) -> bool:
        assert isinstance(value, list)
        expected, new = value
        if not same(self.registers.get(key), expected):
            return False
        self.registers[key] = new
        return True


def same(left: Json, right: Json) -> bool:
    """Equality of JSON values, which unlike Python's keeps true and 1 apart."""
    if isinstance(left, list) and isinstance(right, list):
        return left == right and all(type(a) is type(b) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and left == right


def apply_to_key(function: Function, state: tuple[Json, ...], value: Json) -> tuple[tuple[Json, ...], Json]:
    """The same model for one key with an immutable state, for searches: returns the next state and the result.

    The state of a register is `(value,)`, or `()` before the first write; the state of a list is its values.
    """
    match function:
        case Function.READ:
            return state, state[0] if state else None
        case Function.WRITE:
            return (value,), None
        case Function.CAS:
            assert isinstance(value, Sequence)
            swapped = same(state[0] if state else None, value[0])
            return ((value[1],) if swapped else state), swapped
        case Function.APPEND:
            return (*state, value), None
        case Function.LIST:
            return state, list(state)
        case Function.ECHO:
            return state, value
        case _:
            raise ValueError(f"{function} is no operation on one key")
