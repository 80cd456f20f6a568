"""Channel URIs: what is parsed, what comes back, what is refused."""

import pytest
from hypothesis import given, strategies as st

from upheaval_node.errors import UsageError
from upheaval_node.protocol.channel import MAX_CLIENT_LENGTH, Channel, client_channel, split_endpoint

WORDS = st.text(st.characters(blacklist_characters="|?=", blacklist_categories=["Cs"]), min_size=1, max_size=10)


def test_parts_of_a_channel() -> None:
    channel = Channel.parse("aeron:tcp?endpoint=h:1|alias=x|session-id=-7")
    assert (channel.media, channel.endpoint, channel.get("alias"), channel.is_spy) == ("tcp", "h:1", "x", False)
    assert channel.get_int32("session-id") == -7
    assert channel.get("mtu") is None
    assert channel.get_int("mtu") is None


@pytest.mark.parametrize(
    "uri",
    [
        "aeron:ipc",
        "aeron:ipc?alias=log",
        "aeron-spy:aeron:udp?tags=72|session-id=-996165283|alias=log",
        "aeron:tcp?endpoint=[::1]:9000",
        "aeron:udp?control=a:0|control-mode=manual",
        "aeron:tcp?x=a=b",
        "aeron:tcp?x=",
    ],
)
def test_text_of_a_parsed_channel_is_the_uri(uri: str) -> None:
    assert str(Channel.parse(uri)) == uri


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "aeron",
        "aeron:",
        "ipc",
        "aeron:quic?endpoint=a:1",
        "aeron:tcp?endpoint",
        "aeron:tcp?=x",
        "aeron:tcp?a=1|",
        "aeron:tcp?a=1||b=2",
        "aeron-spy:aeron-spy:aeron:ipc",
        "AERON:ipc",
        "aeron:tcp?a=" + "x" * 4100,
    ],
)
def test_what_is_no_channel_is_refused(uri: str) -> None:
    with pytest.raises(UsageError):
        Channel.parse(uri)


def test_the_last_value_of_a_key_wins() -> None:
    assert Channel.parse("aeron:ipc?a=1|b=2|a=3") == Channel.parse("aeron:ipc?a=3|b=2")


@given(st.dictionaries(WORDS, WORDS, max_size=5), st.booleans())
def test_any_channel_survives_being_written_and_parsed(params: dict[str, str], is_spy: bool) -> None:
    channel = Channel("tcp", {}, is_spy).with_(params)
    assert Channel.parse(str(channel)) == channel


def test_parameters_are_set_and_removed_in_a_copy() -> None:
    channel = Channel.parse("aeron:tcp?endpoint=a:1")
    changed = channel.with_({"term-length": "64k"}, session_id=5, endpoint=None)
    assert str(changed) == "aeron:tcp?term-length=64k|session-id=5"
    assert str(channel) == "aeron:tcp?endpoint=a:1"
    assert str(channel.as_spy()) == "aeron-spy:aeron:tcp?endpoint=a:1"


@pytest.mark.parametrize(("key", "value"), [("a", "x|y"), ("a|b", "x"), ("a", "x?"), ("", "x"), ("a=b", "x")])
def test_a_parameter_that_could_not_be_parsed_back_is_refused(key: str, value: str) -> None:
    with pytest.raises(UsageError):
        Channel("ipc").with_({key: value})


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("65536", 65536), ("64k", 65536), ("2M", 2 << 20), ("1g", 1 << 30)]
)
def test_sizes(text: str, size: int) -> None:
    assert Channel("ipc", {"term-length": text}).get_size("term-length") == size


@pytest.mark.parametrize(
    ("text", "ns"), [("5", 5), ("5ns", 5), ("5us", 5_000), ("10ms", 10_000_000), ("5s", 5_000_000_000)]
)
def test_durations(text: str, ns: int) -> None:
    assert Channel("ipc", {"linger": text}).get_duration_ns("linger") == ns


@pytest.mark.parametrize("text", ["", "k", "1t", "-1", "1.5", "1k ", "٣", "9" * 30])
def test_what_is_no_size_duration_or_integer_is_refused(text: str) -> None:
    channel = Channel("ipc", {"x": text})
    with pytest.raises(UsageError):
        channel.get_size("x")
    with pytest.raises(UsageError):
        channel.get_duration_ns("x")
    if text != "-1":
        with pytest.raises(UsageError):
            channel.get_int("x")


def test_integers_must_lie_in_their_range() -> None:
    channel = Channel("ipc", {"x": str(1 << 31)})
    assert channel.get_int("x") == 1 << 31
    with pytest.raises(UsageError):
        channel.get_int32("x")


def test_only_the_word_true_is_true() -> None:
    values = {"a": "true", "b": "TRUE", "c": "1"}
    channel = Channel("ipc", values)
    assert [channel.get_bool(key, default=True) for key in (*values, "absent")] == [True, False, False, True]


def test_endpoints() -> None:
    assert split_endpoint("localhost:0") == ("localhost", 0)
    assert split_endpoint("[fe80::1]:65535") == ("fe80::1", 65535)


@pytest.mark.parametrize(
    "endpoint", ["", "h", "h:", ":1", "h:65536", "h:-1", "h:x", "fe80::1:80", "h:٣", f"h:{'9' * 5000}"]
)
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(UsageError):
        split_endpoint(endpoint)


@pytest.mark.parity("CM-07")
def test_a_clients_channel_keeps_only_what_an_egress_needs() -> None:
    assert client_channel("aeron:tcp?endpoint=h:1|term-length=1g|session-id=5") == "aeron:tcp?endpoint=h:1"


@pytest.mark.parity("CM-07")
@pytest.mark.parametrize("uri", ["aeron:ipc", "aeron-spy:aeron:tcp", "", "aeron:tcp?control-mode=manual"])
def test_a_channel_that_is_none_to_a_client_is_refused(uri: str) -> None:
    with pytest.raises(UsageError):
        client_channel(uri)


def test_the_length_of_a_clients_channel_is_limited() -> None:
    longest = "aeron:tcp?alias=".ljust(MAX_CLIENT_LENGTH, "x")
    assert client_channel(longest) == longest
    with pytest.raises(UsageError):
        client_channel(longest + "x")
