"""The entries of the nodes beside the members, which commands change side by side."""

import subprocess
import sys
from pathlib import Path

from upheaval.records import CompanionConfig, load_companions, note_companion, note_position

COMMANDS = 4
ROUNDS = 25


def test_commands_that_run_side_by_side_lose_none_of_each_others_entries(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from upheaval.records import CompanionConfig, note_companion, note_position
folder, number = Path(sys.argv[1]), int(sys.argv[2])
for position in range(int(sys.argv[3])):
    note_companion(folder, CompanionConfig(f"standby-{number}{position % 2}"))
    note_position(folder, CompanionConfig("backup-0", position=100 * position + number))
"""
    commands = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(number), str(ROUNDS)])
        for number in range(1, COMMANDS + 1)
    ]
    assert [command.wait(timeout=240) for command in commands] == [0] * COMMANDS
    found = {each.name: each.position for each in load_companions(tmp_path)}
    standbys = {f"standby-{number}{last}": -1 for number in range(1, COMMANDS + 1) for last in (0, 1)}
    assert found == {"backup-0": 100 * (ROUNDS - 1) + COMMANDS, **standbys}


def test_a_position_is_raised_and_the_rest_of_the_entry_stays(tmp_path: Path) -> None:
    kept = CompanionConfig("backup-0", "LEADER", base_port=9000, position=96)
    note_companion(tmp_path, kept)
    note_position(tmp_path, CompanionConfig("backup-0", position=64))
    assert load_companions(tmp_path) == [kept]
    note_position(tmp_path, CompanionConfig("backup-0", position=128))
    assert [(each.source, each.base_port, each.position) for each in load_companions(tmp_path)] == [
        ("LEADER", 9000, 128)
    ]
