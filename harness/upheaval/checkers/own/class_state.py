"""Whether a model keeps state in its class, which all its instances share."""

import pickle
from collections.abc import Mapping

from upheaval.model import Model


class StateInClass(Exception):
    """The model changed an attribute of its class. The message names it."""


class ClassState:
    """The attributes of a model's class and of its bases as they were before the first request."""

    def __init__(self, model: type[Model]) -> None:
        self._classes = [base for base in model.__mro__ if base not in Model.__mro__]
        self._before = self._attributes()

    def require_unchanged(self) -> None:
        """Raises `StateInClass`."""
        after = self._attributes()
        if after == self._before:
            return
        name = next(name for name in {**self._before, **after} if self._before.get(name) != after.get(name))
        raise StateInClass(f"changed {name}, which all instances share: set it in __init__")

    def _attributes(self) -> Mapping[str, object]:
        return {
            f"{base.__qualname__}.{name}": _comparable(value)
            for base in self._classes
            for name, value in vars(base).items()
            if not (name.startswith("__") or name == "_abc_impl" or callable(value) or hasattr(value, "__get__"))
        }


def _comparable(value: object) -> object:
    """The pickled value, so that changes inside it show; its text where it cannot be pickled."""
    try:
        return pickle.dumps(value)
    except Exception:  # noqa: BLE001 - whatever the user's class raises
        return repr(value)
