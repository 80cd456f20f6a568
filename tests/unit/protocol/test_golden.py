"""Bytes of a real Aeron cluster: frames of its log and snapshots, UDP exchange, catalog."""

from support.wire_data import golden
from upheaval_node.protocol import archive_messages as am, cluster_messages as cm, frames, session_header
from upheaval_node.protocol.fragments import FragmentAssembler, append_message, padding_header
from upheaval_node.types import FRAME_HEADER_LENGTH, align


def frames_of(recording: str) -> list[tuple[int, frames.DataHeader, bytes]]:
    found = []
    for entry in golden()[recording]["frames"]:
        content = bytes.fromhex(entry["alignedFrameHex"])
        ((_, header),) = frames.walk(content)
        found.append((entry["position"], header, content))
    return found


def messages_of(recording: str) -> list[tuple[int, bytes]]:
    assembler = FragmentAssembler()
    found = []
    for position, header, content in frames_of(recording):
        payload = content[FRAME_HEADER_LENGTH : header.frame_length]
        message = assembler.on_fragment(header.flags, payload, position, position + len(content))
        if message is not None:
            found.append((position + len(content), bytes(message)))
    return found


def test_log_of_a_real_cluster_decodes_to_what_its_run_did() -> None:
    messages = [cm.SCHEMA.decode(payload) for _, payload in messages_of("logRecording0")]
    assert [type(message).__name__ for message in messages] == [
        "NewLeadershipTermEvent",
        "SessionOpenEvent",
        "SessionMessageHeader",
        "SessionMessageHeader",
        "SessionMessageHeader",
        "SessionMessageHeader",
        "ClusterActionRequest",
        "SessionCloseEvent",
    ]
    term, opened, *_, action, closed = messages
    assert isinstance(term, cm.NewLeadershipTermEvent)
    assert (term.log_position, term.time_unit, term.app_version) == (96, cm.ClusterTimeUnit.MILLIS, 1)
    assert isinstance(opened, cm.SessionOpenEvent)
    assert opened.response_channel == "aeron:udp?rejoin=false|endpoint=localhost:45799"
    assert isinstance(action, cm.ClusterActionRequest)
    assert (action.action, action.flags, action.log_position) == (cm.ClusterAction.SNAPSHOT, 0, 3776)
    assert isinstance(closed, cm.SessionCloseEvent)
    assert closed.close_reason is cm.CloseReason.CLIENT_ACTION


def test_payloads_of_session_messages_start_after_32_bytes() -> None:
    payloads = [payload for _, payload in messages_of("logRecording0")][2:6]
    assert [payload[session_header.LENGTH :] for payload in payloads] == [
        b"hello-0",
        b"hello-1",
        b"hello-2",
        b"\x5a" * 3000,
    ]
    for payload in payloads:
        assert int.from_bytes(payload[:8], "little", signed=True) == session_header.HEADER_WORD


def test_log_of_a_real_cluster_is_written_back_byte_for_byte() -> None:
    written = bytearray()
    for _, payload in messages_of("logRecording0"):
        header = frames_of("logRecording0")[0][1]
        written_length = append_message(
            written,
            [payload[:5], payload[5:]],
            max_payload_length=1408 - FRAME_HEADER_LENGTH,
            term_offset=len(written),
            session_id=header.session_id,
            stream_id=header.stream_id,
            term_id=header.term_id,
        )
        assert written_length > 0
    assert bytes(written) == b"".join(content for _, _, content in frames_of("logRecording0"))


def test_snapshots_of_a_real_cluster_decode() -> None:
    module = [cm.SCHEMA.decode(payload) for _, payload in messages_of("consensusModuleSnapshotRecording2")]
    assert module[3] == cm.Timer(correlation_id=7777, deadline=1795179024034)
    assert module[1] == cm.ConsensusModule(2, -(1 << 63) + 1, -(1 << 63), 0)
    service = [payload for _, payload in messages_of("serviceSnapshotRecording1")]
    assert service[-1] == b"SERVICE-STATE"
    marker = cm.SCHEMA.decode(service[0])
    assert isinstance(marker, cm.SnapshotMarker)
    assert (marker.type_id, marker.mark, marker.log_position) == (2, cm.SnapshotMark.BEGIN, 3776)


def test_every_whole_message_of_the_run_encodes_to_its_bytes() -> None:
    recordings = ("logRecording0", "serviceSnapshotRecording1", "consensusModuleSnapshotRecording2")
    for recording in recordings:
        for _, payload in messages_of(recording):
            if payload != b"SERVICE-STATE":
                decoded = cm.SCHEMA.decode_with_end(payload)
                assert decoded is not None
                message, end = decoded
                assert cm.SCHEMA.encode(message) == payload[:end]


def test_catalog_of_a_real_archive_reads_and_writes_back() -> None:
    content = bytes.fromhex(golden()["catalogFirst832Hex"])
    header = am.SCHEMA.decode_body(am.CatalogHeader, content)
    assert (header.version, header.length, header.next_recording_id, header.alignment) == (196864, 32, 3, 64)
    assert am.SCHEMA.encode_body(header) == content[:32]
    offset, channels = 32, []
    while (entry := am.SCHEMA.decode_body(am.RecordingDescriptorHeader, content, offset)).length > 0:
        descriptor = am.SCHEMA.decode_body(am.RecordingDescriptor, content, offset + 32)
        body = am.SCHEMA.encode_body(descriptor)
        assert content[offset + 32 :].startswith(body)
        assert am.SCHEMA.encode_body(entry) == content[offset : offset + 32]
        assert align(32 + len(body), 64) == 32 + entry.length
        assert entry.state is am.RecordingState.VALID
        channels.append((descriptor.stream_id, descriptor.stop_position, descriptor.source_identity))
        offset += 32 + entry.length
    assert channels == [(100, 3872, "aeron:ipc"), (106, 384, "aeron:ipc"), (107, 576, "aeron:ipc")]


def test_udp_exchange_of_a_real_driver_is_reproduced() -> None:
    capture = golden()["udpCapture"]
    setup = frames.unpack_setup(bytes.fromhex(capture["setup"]))
    assert (setup.session_id, setup.stream_id, setup.mtu, setup.position) == (1234, 55, 1408, 65408)
    assert setup.pack().hex() == capture["setup"]
    status = frames.unpack_status(bytes.fromhex(capture["receiverStatusMessage"]))
    assert (status.consumption_term_id, status.receiver_window, status.receiver_id) == (7, 32768, 99)
    assert status.pack().hex() == capture["receiverStatusMessage"]
    heartbeat = frames.DataHeader(0, frames.FLAGS_UNFRAGMENTED, frames.TYPE_DATA, 65408, 1234, 55, 7)
    assert heartbeat.pack().hex() == capture["heartbeat"]
    block = bytearray()
    append_message(
        block, [b"abc"], max_payload_length=1376, term_offset=65408, session_id=1234, stream_id=55, term_id=7
    )
    assert block.hex() == capture["dataFrame"]
    padding = padding_header(length=64, term_offset=65472, session_id=1234, stream_id=55, term_id=7)
    assert padding.hex() == capture["paddingHeader"]
    assert int(capture["eosHeartbeatFlags"], 16) == frames.FLAGS_EOS_HEARTBEAT
