"""The reader of strace's output knows what was written, when a sync had ended, and what was sent."""

from pathlib import Path

from support.strace_log import Sent, SyncBegun, Synced, Written, read_events


def hexed(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


def test_calls_that_overlap_are_put_in_the_order_of_begin_and_return(tmp_path: Path) -> None:
    path = hexed(b"/d/0-0.rec")
    output = tmp_path / "out"
    output.write_text(
        f'7  pwritev(3<{path}>, [{{iov_base="{hexed(b"ab")}", iov_len=2}}, '
        f'{{iov_base="{hexed(b"c")}", iov_len=1}}], 2, 64) = 3\n'
        f"8  fdatasync(3<{path}> <unfinished ...>\n"
        f'7  sendmsg(4<{path}>, {{msg_name=NULL, msg_iov=[{{iov_base="{hexed(b"hi")}", iov_len=2}}]}}, 0) = 2\n'
        f"8  <... fdatasync resumed>) = 0\n"
        f'7  pwrite64(3<{path}>, "{hexed(b"z")}", 1, 9) = 1\n'
        f'7  pwritev2(3<{path}>, [{{iov_base="{hexed(b"y")}", iov_len=1}}], 1, 70, 0) = 1\n'
        f"7  fdatasync(3<{path}>) = -1 EIO (Input/output error)\n"
        "7  +++ killed by SIGKILL +++\n"
    )
    assert list(read_events(output)) == [
        Written("/d/0-0.rec", 64, b"abc"),
        SyncBegun("/d/0-0.rec"),
        Sent(7, b"hi"),
        Synced("/d/0-0.rec"),
        Written("/d/0-0.rec", 9, b"z"),
        Written("/d/0-0.rec", 70, b"y"),
        SyncBegun("/d/0-0.rec"),
    ]
