"""What travels between `upheaval load` and the process of the users."""

import json

from upheaval.load.settings import SHORT_NAMES, LoadSettings, Row, Statistics


def test_settings_arrive_as_they_were_sent() -> None:
    sent = LoadSettings(
        "0=a:1,1=b:2",
        "h.jsonl",
        5,
        None,
        addresses={"a:1": "b:2"},
        user=SHORT_NAMES["echo"],
        rate=0.0,
        first_id=1 << 59,
        page=7,
    )
    assert LoadSettings.from_json(sent.to_json()) == sent


def test_statistics_arrive_as_they_were_sent() -> None:
    row = Row("read", 10, 2, 5.0, 1.0, 2.0, 3.0, 4.0)
    sent = Statistics((row,), row, {"read: gone": 2})
    assert Statistics.from_fields(json.loads(json.dumps(sent.to_fields()))) == sent
    assert row.successes == 8
