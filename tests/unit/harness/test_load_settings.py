"""What travels between `upheaval load` and the process of the users."""

from upheaval.load.settings import SHORT_NAMES, LoadSettings, Row, Statistics


def test_settings_arrive_as_they_were_sent() -> None:
    sent = LoadSettings("0=a:1,1=b:2", "h.jsonl", 5, 1.5, user=SHORT_NAMES["echo"], rate=0.0, first_id=1 << 59)
    assert LoadSettings.from_json(sent.to_json()) == sent


def test_statistics_arrive_as_they_were_sent() -> None:
    row = Row("read", 10, 2, 5.0, 1.0, 2.0, 3.0, 4.0)
    sent = Statistics((row,), row, {"read: gone": 2})
    assert Statistics.from_json(sent.to_json()) == sent
    assert row.successes == 8
