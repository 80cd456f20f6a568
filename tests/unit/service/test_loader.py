"""A service is found by its name, and a wrong name is distinguished from a broken service."""

import pytest

from upheaval_node.errors import UsageError
from upheaval_node.service.api import ClientSession, ClusteredService
from upheaval_node.service.loader import SHORT_NAMES, load_service


class Good(ClusteredService):
    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        self.last = bytes(payload)


class WantsAnArgument(Good):
    def __init__(self, argument: int) -> None:
        self.argument = argument


class NoService:
    pass


HERE = __name__


@pytest.mark.parametrize("name", sorted(SHORT_NAMES))
def test_every_short_name_makes_a_service(name: str) -> None:
    assert type(load_service(name)).__name__.lower() == name


def test_a_service_is_named_by_module_and_class() -> None:
    assert type(load_service(f"{HERE}:Good")).__name__ == "Good"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nonsense", "neither"),
        ("a.b:", "neither"),
        ("no_such_module_here:Service", "no module 'no_such_module_here'"),
        (f"{HERE}:Missing", "no class 'Missing'"),
        (f"{HERE}:NoService", "not a subclass of ClusteredService"),
        (f"{HERE}:HERE", "HERE is not a class"),
        (f"{HERE}:WantsAnArgument", "WantsAnArgument() failed"),
        ("upheaval_node.service.api:ClusteredService", "failed"),
    ],
)
def test_a_wrong_name_is_explained(name: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_service(name)
    assert complaint in str(caught.value)
