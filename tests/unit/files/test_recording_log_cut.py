"""What the recording log says of terms after the log itself was cut."""

from support.memory_storage import MemoryStorage
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.types import NULL_POSITION, NULL_VALUE


def test_a_cut_makes_terms_that_began_after_it_unknown() -> None:
    storage = MemoryStorage()
    log = RecordingLog(storage)
    for term, base in ((0, 0), (1, 96), (2, 192), (3, 192), (4, 320)):
        log.append_term(7, term, base, 5)
    assert log.cut_terms(192) == 3
    assert log.is_unknown(4)
    assert log.cut_terms(128) == 1
    log.append_term(7, 2, 128, 6)
    valid = [
        (e.leadership_term_id, e.term_base_log_position, e.log_position)
        for e in RecordingLog(storage, create=False).entries
        if e.is_valid
    ]
    assert valid == [(0, 0, 96), (1, 96, 128), (2, 128, NULL_POSITION)]
    assert RecordingLog(MemoryStorage()).cut_terms(0) == NULL_VALUE
