"""Users' services of `services/right` and `services/wrong`: their users, and what has to find the wrong ones."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from upheaval import Client, Cluster, OutcomeUnknown
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report

SERVICES = Path(__file__).parent / "services"
RIGHT = ("leases", "orders", "draws", "bids")
RIGHT_WITH_USERS = ("order_book", "limiter", "newsroom", "telemetry", "transfers")
"""Right ones that locust users of `services/right/users.py` ask, too."""
COUNT = 55
"""Requests before what happens to the cluster, and after it: together a little more than a verdict needs."""
HAPPENINGS = ("nothing", "kill the leader", "cut the leader off", "restart all from a snapshot", "restart one")


# --- right ones ---


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def class_of(name: str) -> str:
    """As the loader takes it: each module has one service, of its name."""
    return f"{name}:{name.title().replace('_', '')}"


def judged_right(name: str, folder: Path, *, runtime: str, seed: int) -> Report:
    """A right service, whose cluster something happens to that the seed draws."""
    source = SERVICES / "right"
    random = Random(f"{name}/{seed}")
    happens = HAPPENINGS[(seed + (*RIGHT, *RIGHT_WITH_USERS).index(name)) % len(HAPPENINGS)]
    with importable(source):
        work = importlib.import_module(name).work
    links = runtime != "simulated" and happens == "cut the leader off"
    with Cluster(class_of(name), source, runtime=runtime, seed=seed, links=links, folder=folder) as cluster:
        work(cluster, random, COUNT)
        happen(cluster, happens)
        work(cluster, random, COUNT)
        return cluster.verify()


def happen(cluster: Cluster, what: str) -> None:
    match what:
        case "kill the leader":
            cluster.chaos.kill_leader()
        case "cut the leader off":
            leader = cluster.wait_until_leader()
            cluster.chaos.isolate(leader)
            cluster.wait_until_leader(other_than=leader)
        case "restart all from a snapshot":
            cluster.snapshot()
            cluster.chaos.kill("all")
            cluster.heal()
        case "restart one":
            cluster.snapshot()
            cluster.chaos.restart("follower")


# --- wrong ones ---

Work = Callable[[Cluster, Path], object]


def ask(client: Client, **fields: Any) -> Any:
    """The answer; None when there is none, as where the service raises."""
    with suppress(OutcomeUnknown):
        return json.loads(client.request(json.dumps(fields).encode()))
    return None


def client_of(cluster: Cluster) -> Client:
    return cluster.client(timeout_s=0.5 if cluster.runtime == "simulated" else 5)


def book(cluster: Cluster, source: Path) -> list[Client]:
    """Two clients take seats."""
    clients = [client_of(cluster), client_of(cluster)]
    for number in range(1, 2 * COUNT + 1):
        ask(clients[number % 3 == 0], id=number, seat=f"seat-{number % 7}")
    return clients


def book_and_leave(cluster: Cluster, source: Path) -> None:
    """As `book`; no session is open any more when the last snapshot is taken."""
    for client in book(cluster, source):
        client.close()


def book_and_change_rates(cluster: Cluster, source: Path) -> None:
    """The price in the file changes while the cluster runs."""
    book(cluster, source)
    # A member that lags would read the new price for a request before.
    cluster.converge()
    (source / "rates.json").write_text('{"ticket": 15}')
    ask(client_of(cluster), id=0, seat="last")


def pay(cluster: Cluster, source: Path) -> None:
    """A client that asks again now and then."""
    client = client_of(cluster)
    for number in range(2 * COUNT):
        for _ in range(1 + (number % 20 == 5)):
            ask(client, id=number, account=f"account-{number % 3}", amount=number)


def edit(cluster: Cluster, source: Path) -> None:
    """Two clients read, then both write."""
    clients = [client_of(cluster), client_of(cluster)]
    for number in range(COUNT // 2):
        versions = [ask(client, id=number, do="read", name="notes")[0] for client in clients]
        for who, client in enumerate(clients):
            ask(client, id=number, do="write", name="notes", version=versions[who], text=f"{who} wrote {number}")


def take_and_read(cluster: Cluster, source: Path) -> None:
    client = client_of(cluster)
    for number in range(COUNT):
        for do in ("take", "read"):
            ask(client, id=number, do=do, seat=f"seat-{number % 7}")


def move_money(cluster: Cluster, source: Path) -> None:
    """A client gives to an account that is not there."""
    client = client_of(cluster)
    for number in range(2 * COUNT):
        to = "carl" if number == COUNT else "bob"
        ask(client, id=number, **{"from": "ann"}, to=to, amount=1 + number % 5)


@dataclass(frozen=True)
class Wrong:
    """A wrong service, and what has to be said of it.

    `promise` finds it, with all of `says` in its line, and with file and line of the code `line`, where that is given.
    """

    name: str
    promise: Promise | str
    says: tuple[str, ...]
    work: Work = book
    line: str = ""
    model: str = ""
    on_processes: Promise | None = None
    """What finds it there, where members of one process are wrong alike and those of several are not."""
    others_on_processes: tuple[str, ...] = ()
    """What is said there in place of `says`, where that is something else."""
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def says_on(self, runtime: str) -> tuple[str, ...]:
        return self.says if runtime == "simulated" else self.others_on_processes or self.says

    def promise_on(self, runtime: str) -> Promise | str:
        return self.promise if runtime == "simulated" else self.on_processes or self.promise

    def where(self) -> str:
        """`file:line` of what is wrong; empty where a message cannot say it."""
        lines = (SERVICES / "wrong" / f"{self.name}.py").read_text().splitlines()
        return f"{self.name}.py:{[each.strip() for each in lines].index(self.line) + 1}" if self.line else ""


AGREE, REPLAY, LINEARIZABLE = Promise.STATES_AGREE, Promise.SNAPSHOT_IS_REPLAY, Promise.LINEARIZABLE
WRONG = (
    Wrong(
        "half_done",
        Promise.SERVICES_RAISED_NOTHING,
        ("ZeroDivisionError", "on_session_message"),
        line='discount = 100 / (request["id"] % 50)',
    ),
    Wrong("clock", AGREE, ("['taken_at']['seat-0']",), line='self.taken_at[request["seat"]] = time.time()'),
    Wrong("unseeded", AGREE, ("['winners'][0]",), line="self.winners.append(random.randrange(10**9))"),
    Wrong("identity", AGREE, ("['seats']['seat-0']",), line='self.seats[request["seat"]] = id(self.guests[-1])'),
    Wrong(
        "thread",
        AGREE,
        ("['ages']['seat-", "starts a thread"),
        line="threading.Thread(target=self.grow_older, daemon=True).start()",
    ),
    Wrong("set_pick", REPLAY, ("['next_guest']",), on_processes=AGREE),
    Wrong("snapshot_order", REPLAY, ("['waiting']", "another order"), on_processes=AGREE),
    Wrong("float_order", REPLAY, ("['totals']",), on_processes=AGREE),
    Wrong(
        "environment",
        REPLAY,
        ("['prices']", "'TICKET_PRICE'"),
        line='self.prices[request["seat"]] = int(os.environ.get(PRICE, "10"))',
        variables={"TICKET_PRICE": "12"},
    ),
    Wrong(
        "reads_file",
        REPLAY,
        ("opens 'rates.json'",),
        book_and_change_rates,
        line='self.prices[request["seat"]] = json.loads(RATES.read_text())["ticket"]',
    ),
    Wrong("forgets", REPLAY, ("the snapshot does not hold all of the state", '"sold"')),
    Wrong("silent", REPLAY, ("the snapshot does not hold all of the state", '"before": null')),
    Wrong("sessions_missing", REPLAY, ("the snapshot does not hold all of the state", '"basket"'), book_and_leave),
    Wrong("mutable_default", REPLAY, ("['baskets']",), others_on_processes=("the snapshot does not hold", '"basket"')),
    Wrong("timer_not_rearmed", AGREE, ("timer 7",)),
    Wrong(
        "leader_offers",
        REPLAY,
        ("and a replay has offered none by then", "a copy that leads asks for all of it: cluster.role"),
    ),
    Wrong("twice_on_retry", LINEARIZABLE, ('"id": 5',), pay, model="models:Balances"),
    Wrong("lost_update", LINEARIZABLE, ('"do": "write"',), edit, model="models:Documents"),
    Wrong("stale_cache", LINEARIZABLE, ('"do": "read"',), take_and_read, model="models:Seats"),
    Wrong("answers_early", LINEARIZABLE, ('"do": "read"',), take_and_read, model="models:Seats"),
    Wrong("swallows", "own/no money is made or lost", ('"to": "carl"',), move_money, model="money"),
    Wrong("unbounded", "own/no more than fifty answers are kept", ("answers holds 51",), model="bounded"),
)


def judged_wrong(wrong: Wrong, folder: Path, *, runtime: str, seed: int = 1) -> Report:
    """The service with its users, in a copy of the folder, because some of them change files."""
    source = folder / "source"
    source.mkdir()
    for path in (SERVICES / "wrong").glob("*.py"):
        (source / path.name).write_text(path.read_text())
    (source / "rates.json").write_text('{"ticket": 12}')
    # A module of another copy is another one.
    sys.modules.pop(wrong.name, None)
    options: dict[str, Any] = {"model": wrong.model} if wrong.model else {}
    made = Cluster(class_of(wrong.name), source, runtime=runtime, seed=seed, folder=folder / "run", **options)
    with made as cluster:
        wrong.work(cluster, source)
        return cluster.verify()
