"""How often a publication dials a receiver that is not there."""

from dataclasses import replace

from support.media_world import SETTINGS, World
from upheaval_node.types import MS

CHANNEL = "aeron:tcp?endpoint=b:1"


def test_a_receiver_that_is_not_there_is_dialled_again_soon_and_then_less_and_less_often() -> None:
    world = World(settings=replace(SETTINGS, redial_interval_ns=160 * MS))
    a, b = world.driver(), world.driver()
    publication = a.add_publication(CHANNEL, 10)
    times_ms: list[int] = []
    for ms in range(641):
        world.settle()
        times_ms += [ms] * (len(world.network.dialled) - len(times_ms))
        world.ns += MS
    # The clock of this world begins at 1 ms.
    assert times_ms == [0, 9, 19, 39, 79, 159, 319, 479, 639]
    b.add_subscription(CHANNEL, 10)
    world.advance(300)
    assert publication.is_connected
    # After a connection the first wait is a short one again.
    del world.network.dialled[:]
    world.network.refused.add("b:1")
    world.network.cut()
    world.advance(70, 1)
    assert len(world.network.dialled) >= 4


def test_many_receivers_that_are_not_there_cost_no_more_ticks_than_one() -> None:
    world = World(settings=replace(SETTINGS, redial_interval_ns=160 * MS))
    driver = world.driver()
    for number in range(300):
        driver.add_publication(f"aeron:tcp?endpoint=gone:{number}", 10)
        world.advance(1, 1)
    moments = 0
    for _ in range(1600):
        known = len(world.network.dialled)
        world.advance(1, 1)
        moments += len(world.network.dialled) > known
    assert len(world.network.dialled) > 300 * 9
    assert moments <= 1600 // 160 + 5
