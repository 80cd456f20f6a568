"""Backups that die at any moment of clusters that go on: nothing that they had is lost, and they go on where they were.

Each seed draws another order of messages, snapshots, lost leaders and deaths of the backup, some of them in the middle
of a write. Whatever a member restored from it has heard must be the beginning of what the cluster answered, and at
least all that was answered when the backup said that it had it.
"""

from functools import partial
from random import Random

import pytest

from support.backup_world import Backup
from support.system_world import System, numbered
from upheaval_node.settings import MemberSettings, profile_settings

STEPS = ("say", "say", "say", "snapshot", "new leader", "kill", "kill in a write", "wait", "restore")


class Story:
    """One cluster, one backup, and what has to be there."""

    def __init__(self, seed: int, settings: MemberSettings, *, cuts_power: bool) -> None:
        self.random = Random(seed)
        self.system = System(seed=seed, settings=settings)
        self.client = self.system.client()
        self.said: list[bytes] = []
        self.proven = 0
        self.steps: list[str] = []
        source = self.random.choice(("ANY", "LEADER", "FOLLOWER"))
        replay_start = self.random.choice(("BEGINNING", "LATEST_SNAPSHOT"))
        self.backup = Backup(self.system, source=source, replay_start=replay_start)
        companion = self.backup.companion
        self.end_it = partial(companion.end, power_cut=cuts_power)

    def go(self) -> None:
        step = self.random.choice(STEPS)
        self.steps.append(step)
        system, random, companion = self.system, self.random, self.backup.companion
        match step:
            case "say":
                words = numbered(f"step-{len(self.steps)}", random.randint(1, 60), random.randint(0, 300))
                system.echo(self.client, words)
                self.said += words
            case "snapshot":
                system.snapshot()
            case "new leader":
                leader = system.leader()
                system.kill(leader)
                system.follow(self.client)
                system.start(leader)
                system.follow(self.client)
            case "kill":
                self.end_it()
            case "kill in a write":
                companion.disk.end_process_at(random.randint(0, 40), self.end_it)
            case "wait":
                system.run_for(random.random() * 4)
        self.note_what_it_has()
        if step == "restore" or not companion.alive:
            self.check()
        if not companion.alive and random.random() < 0.5:
            self.start_again()

    def note_what_it_has(self) -> None:
        """Nothing is said at the moment: what is committed is what was answered."""
        system = self.system
        committed = max(status.commit_position for status in system.cluster.status())
        if self.backup.companion.alive and self.backup.position >= committed:
            self.proven = len(self.said)

    def start_again(self) -> None:
        self.backup.companion.disk.disarm()
        self.backup.companion.start()

    def check(self) -> None:
        heard = self.backup.restored_messages()
        assert heard == self.said[: len(heard)], self.steps
        assert len(heard) >= self.proven, self.steps

    def check_terms(self) -> None:
        """The backup names the terms of its log as the members do, up to the present one."""
        system = self.system
        leader = system.leader()
        named = {each.leadership_term_id: each for each in system.modules[leader].recording_log.entries}
        own = [each for each in self.backup.recording_log().entries if not each.is_snapshot]
        if not own:
            # A copy that begins at a snapshot, and nothing has come since.
            status = self.backup.companion.status()
            assert status.live_log_position == status.snapshot_position, self.steps
            return
        assert own[-1].leadership_term_id == system.status(leader).leadership_term_id, self.steps
        for each in own:
            known = named[each.leadership_term_id]
            assert each.term_base_log_position == known.term_base_log_position, self.steps


def tell(seed: int, settings: MemberSettings, *, cuts_power: bool = False) -> Story:
    story = Story(seed, settings, cuts_power=cuts_power)
    for _ in range(story.random.randint(6, 14)):
        story.go()
    story.start_again()
    story.backup.follow()
    assert story.backup.restored_messages() == story.said, story.steps
    story.check_terms()
    return story


def synced() -> MemberSettings:
    return profile_settings("test", sync_level=1)


@pytest.mark.parametrize("seed", range(12))
def test_a_backup_that_is_killed_loses_nothing_that_it_had(seed: int) -> None:
    story = tell(seed, profile_settings("test"))
    assert story.backup.companion.status().follows


@pytest.mark.parametrize("seed", range(6))
def test_a_synced_backup_that_loses_power_loses_nothing_that_it_had(seed: int) -> None:
    story = tell(seed, synced(), cuts_power=True)
    assert story.backup.companion.status().follows


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_such_deaths(seed: int) -> None:
    settings = synced() if seed % 2 else profile_settings("test")
    story = tell(seed, settings, cuts_power=bool(seed % 2))
    assert story.backup.companion.status().follows
