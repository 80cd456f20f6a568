"""The zoo: campaigns look for each planted bug until a promise that must find it is broken, or a budget is spent.

A search is one bug from one first seed on. Its file in the zoo's folder is written after every seed, so that an
interrupted zoo continues where it was. A bug is caught if its median search found it: a search that spent its budget
counts as longer than any other.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median_high
from typing import Final, TypeVar

from upheaval.campaign.pool import some_at_a_time
from upheaval.campaign.searches import UNIFORM
from upheaval.campaign.seed import SeedOutcome, try_seed
from upheaval.campaign.tries import own_digest
from upheaval.errors import UsageError
from upheaval.records import Json, jsonfields, owned_folder, write_atomically
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import bug_named
from upheaval_node import __version__

BUDGET_S: Final = 300.0
"""The budget of one search, in seconds of processor time."""
SEEDS_APART: Final = 10_000
"""The distance between the first seeds of two searches for one bug."""

Progress = TypeVar("Progress", "Search", "Shrunk")
TrySeed = Callable[[int, str | None, Path], SeedOutcome]


@dataclass(frozen=True, slots=True)
class Search:
    """A search for a bug and its progress. `promise` is the one that the last seed broke, empty while the bug is not
    found.
    """

    bug: str
    repeat: int
    first_seed: int
    version: str = __version__
    promise: str = ""
    seeds: int = 0
    processor_ms: int = 0
    others: tuple[str, ...] = ()
    """Broken promises that need not find the bug, and promises that were unknown."""
    search: str = UNIFORM
    """How its clusters are drawn."""

    @property
    def is_caught(self) -> bool:
        """Whether a promise that must find the bug was broken."""
        return bool(self.promise)

    @property
    def last_seed(self) -> int:
        """The seed that was tried last."""
        return self.first_seed + self.seeds - 1

    def after(self, outcome: SeedOutcome) -> "Search":
        """The search with one more seed."""
        broken = outcome.finds(bug_named(self.bug))
        met = () if broken else (str(one.promise) for one in outcome.fingerprints)
        return replace(
            self,
            promise=broken[0] if broken else "",
            seeds=self.seeds + 1,
            processor_ms=self.processor_ms + round(1000 * outcome.processor_seconds),
            others=tuple(dict.fromkeys((*self.others, *met))),
        )


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The simplest plan that fails as the seed that found a bug does, and the rate of its text."""

    seed: int
    members: int
    faults: int
    operations: int
    """Acknowledged before the promise broke, or until the end."""
    runs: int
    """Of the search for the plan."""
    is_over: bool
    """Whether the budget ended that search."""
    fresh: int = 0
    """How many other seeds fail alike with the text."""
    fresh_runs: int = 0
    """The number of other seeds; 0 if no text fails alike."""


@dataclass(frozen=True, slots=True)
class Row:
    """The result for a bug. Seeds and processor seconds are medians; None if most searches did not find it."""

    bug: str
    area: str
    breaks: str
    promises: tuple[str, ...]
    """The promises that found it, the most frequent first."""
    caught: int
    searches: int
    seeds: int | None
    processor_seconds: float | None
    others: tuple[str, ...] = ()
    """The other promises that unsuccessful searches met."""
    spent_seeds: int = 0
    """The median of the seeds that searches tried, of unsuccessful ones too."""
    spent_seconds: float = 0.0
    """The median of their processor seconds."""
    found_by: int | None = None
    """The seed with which the first successful search ended."""
    search: str = UNIFORM
    shrunk: Shrunk | None = None

    @property
    def is_caught(self) -> bool:
        """Whether most searches found it."""
        return self.seeds is not None

    def to_fields(self) -> dict[str, Json]:
        """The JSON fields."""
        return {**asdict(self), "promises": list(self.promises), "others": list(self.others)}


def row_of(bug: PlantedBug, searches: Sequence[Search]) -> Row:
    """The row for all searches for one bug."""
    caught = [search for search in searches if search.is_caught]
    seeds = median_high([search.seeds if search.is_caught else float("inf") for search in searches])
    ms = median_high([search.processor_ms if search.is_caught else float("inf") for search in searches])
    is_caught = seeds != float("inf")
    others = Counter[str]()
    for search in searches:
        others.update(() if search.is_caught else search.others)
    return Row(
        bug.name,
        bug.area,
        bug.breaks,
        tuple(promise for promise, _ in Counter(search.promise for search in caught).most_common()),
        len(caught),
        len(searches),
        int(seeds) if is_caught else None,
        round(ms / 1000, 1) if is_caught else None,
        tuple(promise for promise, _ in others.most_common()),
        median_high(search.seeds for search in searches),
        round(median_high(search.processor_ms for search in searches) / 1000, 1),
        caught[0].last_seed if caught else None,
        searches[0].search,
    )


def run_zoo(
    bugs: Iterable[PlantedBug],
    folder: Path,
    *,
    first_seed: int = 1,
    budget_s: float = BUDGET_S,
    repeats: int = 1,
    jobs: int = 1,
    search: str = UNIFORM,
) -> Iterator[Row]:
    """A row for each bug, as soon as its searches are over. Raises `UsageError` for a folder of other seeds or code."""
    wanted = list(bugs)
    searches = [
        Search(bug.name, repeat, first_seed + repeat * SEEDS_APART, search=search)
        for bug in wanted
        for repeat in range(repeats)
    ]
    for begun in searches:
        _read(begun, folder)
    with owned_folder("zoo") as scratch:
        try_one = partial(try_seed, search=search)
        work = partial(run_search, folder=folder, scratch=scratch, budget_s=budget_s, try_one=try_one)
        with some_at_a_time(work, jobs) as run:
            over = run(searches)
            for bug in wanted:
                yield row_of(bug, [next(over) for _ in range(repeats)])


def run_search(search: Search, folder: Path, scratch: Path, budget_s: float, try_one: TrySeed = try_seed) -> Search:
    """Continue a search until it has found its bug or spent its budget."""
    folder.mkdir(parents=True, exist_ok=True)
    current = _read(search, folder)
    while not current.is_caught and current.processor_ms < 1000 * budget_s:
        place = scratch / f"{current.bug}-{current.repeat}"
        current = current.after(try_one(current.first_seed + current.seeds, current.bug, place))
        write_progress(current, _file(current, folder))
    return current


def _file(search: Search, folder: Path) -> Path:
    return folder / f"{search.bug}-{search.repeat}.json"


def _read(search: Search, folder: Path) -> Search:
    file = _file(search, folder)
    known = read_progress(Search, file)
    if known is None:
        return search
    if (known.first_seed, known.version, known.search) != (search.first_seed, search.version, search.search):
        raise UsageError(f"{file} is of another first seed, search or version: give another --out")
    return known


def write_progress(progress: Search | Shrunk, file: Path) -> None:
    """Write it with the digest of the code that it comes from."""
    write_atomically(file, jsonfields.to_json({**asdict(progress), "digest": own_digest()}) + "\n")


def read_progress(kind: type[Progress], file: Path) -> Progress | None:
    """None without the file. Raises `UsageError` for one that other code wrote: a bug that it caught may escape this
    code.
    """
    if not file.is_file():
        return None
    if jsonfields.read_object(file).get("digest") != own_digest():
        raise UsageError(f"{file} is of code that has changed since: give another --out")
    return jsonfields.read_file(kind, file)
