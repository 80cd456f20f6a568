"""What a session heard besides answers, against what a replay sends: by values, and by copies of a service.

Records keep no common order of answers and news, so a message that came before its answer is as right as one after it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.service_logs import SERVICES, recorded, used
from upheaval.checkers.own.heard import WINDOW, Sent, first_unexplained
from upheaval.checkers.own.news import Heard, check_news
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Manifest, Stray

ALL = 1 << 60
LISTENER = 3
SENT = [Sent(text, 32 * number, 2) for number, text in enumerate("abcabdae")]

Change = Callable[[list[str]], list[str]]


@pytest.mark.parametrize(
    ("news", "answers"),
    [
        (list("abcabdae"), []),
        (list("abcabda"), ["e"]),
        (list("bcabda"), ["a", "e"]),
        (list("cabd"), []),
        (list("acabdae"), ["b"]),
        ([], list("ab")),
        (list("a"), []),
    ],
)
def test_what_is_sent_and_heard_in_order_is_right(news: list[str], answers: list[str]) -> None:
    assert first_unexplained(SENT, news, answers, has_all=True) is None


@pytest.mark.parametrize(
    ("news", "answers", "position", "says"),
    [
        (list("abcx"), [], None, "heard 'x', which a replay of the log does not send to it"),
        (list("abcabdaae"), [], 192, "heard 'a' 4 times, and a replay sends it 3 times, the last time at position 192"),
        (list("cc"), [], 64, "heard 'c' 2 times"),
        (list("c"), ["c"], 64, "heard 'c' 2 times"),
        (
            list("aaab"),
            [],
            128,
            "heard 'b' after 'a', and a replay sends it at position 128, before the other at position 192",
        ),
        (list("dc"), [], 64, "heard 'c' after 'd', and a replay sends it at position 64, before the other at"),
        (list("cabae"), [], 160, "did not hear 'd', which a replay sends at position 160, and heard what comes before"),
    ],
)
def test_what_is_not_sent_so_is_named_with_its_place_and_leader(
    news: list[str], answers: list[str], position: int | None, says: str
) -> None:
    unexplained = first_unexplained(SENT, news, answers, has_all=True)
    assert unexplained is not None
    assert (unexplained.position, unexplained.leader) == (position, None if position is None else 2)
    assert says in unexplained.detail


def test_what_may_be_lost_on_the_way_is_not_missed() -> None:
    assert first_unexplained(SENT, list("cabae"), [], has_all=False) is None
    many = [Sent(str(number), number, 0) for number in range(WINDOW // 64)]
    heard = [each.text for each in many if each.position != 7]
    assert first_unexplained(many, heard, [], has_all=True) is None
    long = [replace(each, text="\u00fc" * 300 + each.text) for each in many[:60]]
    heard = [each.text for each in long if each.position != 7]
    assert first_unexplained(long, heard, [], has_all=True) is None, "bytes count, and not characters"


def keep(news: list[str]) -> list[str]:
    return news


def swap(news: list[str]) -> list[str]:
    """The first deposit goes to another account than the second."""
    return [news[1], news[0], *news[2:]]


def drop(news: list[str]) -> list[str]:
    return [*news[:5], *news[6:]]


def repeat(news: list[str]) -> list[str]:
    return [*news, news[-1]]


@pytest.mark.parametrize(
    ("change", "verdict", "says"),
    [
        (keep, Verdict.VALID, "messages of sessions besides answers are those of a replay, in its order (sessions: 1)"),
        (swap, Verdict.INVALID, "session 3 heard '0' after 'o0', and a replay sends it at position "),
        (drop, Verdict.INVALID, "session 3 did not hear "),
        (repeat, Verdict.INVALID, "session 3 heard "),
    ],
)
def test_news_of_a_service_are_those_of_the_log(
    change: Change, verdict: Verdict, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SERVICES))
    log = used("Accounts")
    run = recorded(log, tmp_path)
    heard = change([content.decode() for session, content in log.egress if session == LISTENER])
    strays = [Stray(LISTENER, number, text=text) for number, text in enumerate(heard)]
    finding = check_news(run, run.read_manifest(), Heard((), strays), 0, ALL, has_faults=False)
    assert isinstance(finding, Finding)
    assert (finding.promise, finding.verdict) == (Promise.ANSWERED_ONCE, verdict)
    assert says in finding.detail
    assert ("member 0 led" in finding.detail) is (verdict is Verdict.INVALID)


def test_news_with_a_clock_are_not_of_the_log_unless_a_model_allows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SERVICES))
    log = used("ClockInPush", module="lapses")
    run = recorded(log, tmp_path)
    heard = [content.decode() for session, content in log.egress if session == LISTENER]
    news = Heard((), [Stray(LISTENER, number, text=text) for number, text in enumerate(heard) if " " in text])
    manifest = run.read_manifest()
    finding = check_news(run, manifest, news, 0, ALL, has_faults=False)
    assert isinstance(finding, Finding), finding
    assert (finding.promise, finding.verdict) == (Promise.ANSWERED_ONCE, Verdict.INVALID)
    assert "which a replay of the log does not send to it; two replays send different messages" in finding.detail
    allowed = check_news(run, replace(manifest, model="models:Any"), news, 0, ALL, has_faults=False)
    assert allowed == "two replays of the log send something else to sessions, and the model may allow it"


def test_answers_with_a_clock_do_not_accuse_the_news_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SERVICES))
    log = used("ClockInAnswer", module="lapses")
    run = recorded(log, tmp_path)
    heard = [content.decode() for session, content in log.egress if session == LISTENER]
    news = Heard((), [Stray(LISTENER, number, text=text) for number, text in enumerate(heard[1:])])
    finding = check_news(run, run.read_manifest(), news, 0, ALL, has_faults=False)
    assert isinstance(finding, Finding), finding
    assert finding.verdict is Verdict.VALID, finding


def test_without_news_nothing_is_judged(tmp_path: Path) -> None:
    run = recorded(used("Accounts"), tmp_path)
    assert check_news(run, Manifest("run-1", "process", 3, "test", 0), Heard((), ()), 0, ALL, has_faults=False) == (
        "no session heard anything but answers to its calls"
    )
