"""What a command did: lines for people, or one JSON object for programs."""

from collections.abc import Mapping

from upheaval.records.jsonfields import to_json


def answer(text: str, facts: Mapping[str, object], *, as_json: bool) -> None:
    """Print one of the two on standard output."""
    print(to_json(facts) if as_json else text, flush=True)
