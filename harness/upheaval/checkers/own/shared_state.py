"""What all instances of a model share: attributes of its classes and of those inside them, globals of its modules."""

import pickle
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Final

from upheaval.model import Model

_ABSENT: Final = b""
Owner = type | ModuleType


class SharedState:
    """The shared state as it was before the first request, as far as it can be pickled."""

    def __init__(self, model: type[Model]) -> None:
        classes = [base for base in model.__mro__ if base not in Model.__mro__]
        modules = [sys.modules[base.__module__] for base in classes]
        self._before = {owner: _pickled(owner) for owner in _with_inner([*classes, *modules], {})}

    def restore(self) -> list[str]:
        """Put back what has changed. Returns its names."""
        names = []
        for owner, before in self._before.items():
            after = _pickled(owner)
            for name in {**before, **after}:
                was = before.get(name, _ABSENT)
                if was == after.get(name, _ABSENT) or was is None:
                    continue
                if was:
                    setattr(owner, name, pickle.loads(was))
                else:
                    delattr(owner, name)
                names.append(f"{owner.__qualname__ if isinstance(owner, type) else owner.__name__}.{name}")
        return names


def _with_inner(owners: Iterable[Owner], owned: dict[Owner, None]) -> Iterable[Owner]:
    """Adds these, and the classes inside them that are defined in the same module."""
    for owner in owners:
        if owner not in owned:
            owned[owner] = None
            module = owner.__module__ if isinstance(owner, type) else owner.__name__
            inner = [value for value in vars(owner).values() if isinstance(value, type) and value.__module__ == module]
            _with_inner(inner, owned)
    return owned


def _pickled(owner: Owner) -> dict[str, bytes | None]:
    """By name; None for what cannot be pickled."""
    return {
        name: _pickle(value)
        for name, value in vars(owner).items()
        if not (name.startswith("__") or name == "_abc_impl" or isinstance(value, ModuleType))
    }


def _pickle(value: object) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001 - whatever the user's class raises
        return None
