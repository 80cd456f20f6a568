"""A service whose messages are SBE: typed requests, and their fields in findings, on the page and in `trace`."""

import json
import struct
from pathlib import Path

import pytest

from support.stranger import EXAMPLES, copy_of
from upheaval import Cluster, SbeMessage, UsageError, Verdict
from upheaval.cli.main import main
from upheaval.records import SCHEMA_FILE

ORDERS = EXAMPLES / "orders"
SERVICE = "orderbook.service:OrderBook"
SCHEMA = ORDERS / "protocol.xml"
STRANGE = struct.pack("<HHHH", 0, 99, 90, 1)


def ask(cluster: Cluster) -> list[SbeMessage]:
    """A sell order that a buy order meets, a cancellation, and bytes that are no message of the schema."""
    schema = cluster.schema
    with cluster.client(timeout_s=5) as client:
        answers = [
            client.request(schema.NewOrder(orderId=1, side="SELL", quantity=10, price={"mantissa": 1250}, note="a")),
            client.request(schema.NewOrder(orderId=2, side="BUY", quantity=4, price={"mantissa": 1300})),
            client.request(schema.CancelOrder(orderId=1)),
        ]
        answers.append(schema.decode(client.request(STRANGE)))
    return answers


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that one client asked four things."""
    folder = tmp_path_factory.mktemp("orders") / "run"
    with Cluster(SERVICE, ORDERS, runtime="simulated", schema=SCHEMA, folder=folder) as cluster:
        answers = ask(cluster)
        assert list(map(str, answers)) == [
            "OrderAccepted(orderId=1, open=10, fills=[])",
            "OrderAccepted(orderId=2, open=0, fills=[(quantity=4, price=12.50)])",
            "OrderCancelled(orderId=1, quantity=6)",
            "Rejected(orderId=0, reason=NOT_AN_ORDER)",
        ]
        cluster.verify()
    return folder


def test_trace_prints_requests_and_answers_by_field(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(run), "--requests"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=6)[6] for line in lines] == [
        'NewOrder(orderId=1, side=SELL, quantity=10, price=12.50, note="a") -> '
        "OrderAccepted(orderId=1, open=10, fills=[])",
        'NewOrder(orderId=2, side=BUY, quantity=4, price=13.00, note="") -> '
        "OrderAccepted(orderId=2, open=0, fills=[(quantity=4, price=12.50)])",
        "CancelOrder(orderId=1) -> OrderCancelled(orderId=1, quantity=6)",
        "0x000063005a000100, no message of the schema: unknown template id 99 -> "
        "Rejected(orderId=0, reason=NOT_AN_ORDER)",
    ]


def test_trace_prints_one_kind_of_request_as_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(run), "--requests", "--message", "CancelOrder", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    fields = json.loads(line)
    assert fields["request"]["message"] == "CancelOrder"
    assert fields["answer"]["fields"] == {"orderId": 1, "quantity": 6}


def test_trace_refuses_a_message_that_the_schema_does_not_have(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(run), "--requests", "--message", "NewOrders"]) == 2
    assert "unknown message 'NewOrders': use NewOrder, CancelOrder, " in capsys.readouterr().err


def test_the_page_has_the_messages_by_field(run: Path) -> None:
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "CancelOrder(orderId=1)" in page
    assert "OrderCancelled(orderId=1, quantity=6)" in page


def test_the_schema_is_part_of_the_run(run: Path) -> None:
    assert SCHEMA_FILE in json.loads((run / "seal.json").read_text())["files"]


def test_a_finding_has_the_messages_by_field(tmp_path: Path) -> None:
    source = copy_of("orders", tmp_path / "orders")
    (source / "open_orders.py").write_text(
        "from orderbook.protocol import SCHEMA\n"
        "from upheaval import Model\n"
        "class Open(Model):\n"
        "    def apply(self, request):\n"
        "        order = SCHEMA.decode(request.payload)\n"
        "        return SCHEMA.OrderAccepted(orderId=order.orderId, open=order.quantity)\n"
    )
    options = {"runtime": "simulated", "schema": SCHEMA, "model": "open_orders:Open", "folder": tmp_path / "run"}
    with Cluster(SERVICE, source, **options) as cluster:  # type: ignore[arg-type]
        ask(cluster)
        report = cluster.verify()
    assert report.verdict is Verdict.INVALID
    assert (
        'NewOrder(orderId=2, side=BUY, quantity=4, price=13.00, note=""): expected OrderAccepted(orderId=2, open=4, '
        "fills=[]) by the model open_orders:Open, "
        "got OrderAccepted(orderId=2, open=0, fills=[(quantity=4, price=12.50)])"
    ) in str(report)


def test_a_schema_that_cannot_be_used_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "protocol.xml"
    damaged.write_text(SCHEMA.read_text().replace('type="Price"', 'type="Prise"', 1))
    command = ["up", "--dir", str(tmp_path / "c"), "--service", "m:C", "--schema", str(damaged)]
    assert main(command) == 2
    line = capsys.readouterr().err.strip()
    assert line.endswith(f"schema {damaged}:37: field 'price': unknown type 'Prise'; did you mean 'Price'?")
    assert "\n" not in line
    assert not (tmp_path / "c").exists()


def test_a_schema_is_for_a_service_of_ones_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a schema is for a custom service, ledger has its own"):
        Cluster("ledger", runtime="simulated", schema=SCHEMA, folder=tmp_path / "run")


def test_a_cluster_without_a_schema_says_how_to_give_one(tmp_path: Path) -> None:
    cluster = Cluster(SERVICE, ORDERS, runtime="simulated", folder=tmp_path / "run")
    with pytest.raises(UsageError, match=r"no schema: give schema=, or upheaval_schema"):
        _ = cluster.schema
