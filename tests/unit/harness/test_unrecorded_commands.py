"""What a verdict says of admin commands without a record: an operator may have used the tool, which keeps none."""

import pytest

from upheaval.checkers.evidence.admin_commands import CommandEvidence, admin_commands_proved
from upheaval.checkers.evidence.events import OrderedAction
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import NotApplicable
from upheaval.records import AdminCommand

ORDERED = OrderedAction(AdminCommand.SNAPSHOT, 96)


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (CommandEvidence(), "no admin command was recorded"),
        (CommandEvidence([]), "no admin command was recorded"),
        (CommandEvidence([ORDERED]), "no admin command was recorded, and the log orders a snapshot at position 96"),
        (CommandEvidence([ORDERED], restored=96), "no admin command was recorded"),
    ],
    ids=["no log", "nothing ordered", "ordered", "ordered before the restore"],
)
def test_an_order_in_the_log_without_a_record_is_named(shown: CommandEvidence, why: str) -> None:
    assert admin_commands_proved([], shown) == [NotApplicable(Promise.ADMIN_COMMANDS_PROVED, why)]
