"""The fast path of session messages gives the bytes of the codec."""

from hypothesis import given, strategies as st

from upheaval_node.protocol import cluster_messages as cm, session_header

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(INT64, INT64, INT64)
def test_packed_header_is_the_encoded_message(term: int, session: int, timestamp: int) -> None:
    packed = session_header.pack_session_header(term, session, timestamp)
    assert packed == cm.SCHEMA.encode(cm.SessionMessageHeader(term, session, timestamp))
    assert len(packed) == session_header.LENGTH
    assert session_header.unpack_session_header(packed) == (term, session, timestamp)


def test_header_word_and_offsets_match_a_view_of_longs() -> None:
    buffer = bytes(32) + session_header.pack_session_header(7, 8, 9)
    longs = memoryview(buffer).cast("q")
    assert longs[4] == session_header.HEADER_WORD
    assert longs[(32 + session_header.LEADERSHIP_TERM_ID_OFFSET) // 8] == 7
    assert longs[(32 + session_header.CLUSTER_SESSION_ID_OFFSET) // 8] == 8
    assert longs[(32 + session_header.TIMESTAMP_OFFSET) // 8] == 9
    assert session_header.unpack_session_header(buffer, 32) == (7, 8, 9)
