"""The group of publications by which a backup reaches one member after the other."""

from random import Random
from typing import cast

import pytest

from upheaval_node.backup.publication_group import PublicationGroup
from upheaval_node.media.api import Publication

ENDPOINTS = ["m0:1", "m1:1", "m2:1"]


class Opened:
    """A publication as far as a group knows it."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def group(endpoints: list[str] = ENDPOINTS) -> tuple[PublicationGroup, list[Opened]]:
    opened: list[Opened] = []

    def add(endpoint: str) -> Publication:
        opened.append(Opened(endpoint))
        return cast(Publication, opened[-1])

    return PublicationGroup(endpoints, add), opened


def visited(publications: PublicationGroup, opened: list[Opened], count: int) -> list[str]:
    before = len(opened)
    for _ in range(count):
        publications.next()
    return [each.endpoint for each in opened[before:]]


@pytest.mark.parity("PG-01")
def test_next_walks_all_endpoints_again_and_again() -> None:
    publications, opened = group()
    assert visited(publications, opened, 7) == [*ENDPOINTS, *ENDPOINTS, "m0:1"]


@pytest.mark.parity("PG-02")
def test_current_is_what_the_last_next_opened() -> None:
    publications, _ = group()
    found = publications.next()
    assert publications.current is found is publications.current
    assert publications.current_endpoint == "m0:1"


@pytest.mark.parity("PG-03")
def test_there_is_no_current_one_before_the_first_next() -> None:
    publications, opened = group()
    assert (publications.current, publications.current_endpoint, opened) == (None, None, [])


@pytest.mark.parity("PG-04")
def test_next_closes_the_one_before() -> None:
    publications, opened = group()
    publications.next()
    publications.next()
    assert [each.is_closed for each in opened] == [True, False]


@pytest.mark.parity("PG-05")
def test_an_excluded_endpoint_is_passed_over() -> None:
    publications, opened = group()
    visited(publications, opened, 2)
    publications.exclude_current()
    assert visited(publications, opened, 4) == ["m2:1", "m0:1", "m2:1", "m0:1"]


@pytest.mark.parity("PG-06")
def test_an_endpoint_comes_back_when_the_exclusion_is_cleared() -> None:
    publications, opened = group()
    visited(publications, opened, 2)
    publications.exclude_current()
    publications.clear_exclusion()
    assert visited(publications, opened, 3) == ["m2:1", "m0:1", "m1:1"]


def test_one_endpoint_at_most_is_excluded() -> None:
    publications, opened = group()
    publications.next()
    publications.exclude_current()
    publications.next()
    publications.exclude_current()
    assert visited(publications, opened, 3) == ["m2:1", "m0:1", "m2:1"]


def test_the_only_endpoint_is_used_although_it_is_excluded() -> None:
    publications, opened = group(["m0:1"])
    publications.next()
    publications.exclude_current()
    assert visited(publications, opened, 2) == ["m0:1", "m0:1"]


@pytest.mark.parity("PG-07")
def test_close_closes_the_current_one() -> None:
    publications, opened = group()
    publications.next()
    publications.close_current()
    assert opened[0].is_closed
    assert publications.current is None


@pytest.mark.parity("PG-08")
def test_shuffling_changes_the_order_at_some_time() -> None:
    random = Random(1)
    orders = set()
    for _ in range(20):
        publications, _ = group()
        publications.shuffle(random)
        orders.add(tuple(publications.endpoints))
    assert len(orders) > 1
    assert {tuple(sorted(order)) for order in orders} == {tuple(ENDPOINTS)}
