"""Runs whose files were changed after they were collected."""

import json
from collections.abc import Callable
from pathlib import Path

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

_SCENARIO = "snapshot-and-restart"


def a_byte_of_the_recording_log_is_another(run: Path) -> None:
    path = run / "member-1" / "cluster" / "recording.log"
    content = bytearray(path.read_bytes())
    content[32] ^= 1
    path.write_bytes(content)


def a_byte_in_a_hole_is_another(run: Path) -> None:
    with (run / "member-2" / "archive" / "1-0.rec").open("r+b") as stream:
        stream.seek(700_000)
        stream.write(b"\1")


def a_recording_is_longer(run: Path) -> None:
    with (run / "member-0" / "archive" / "1-0.rec").open("ab") as stream:
        stream.write(bytes(4096))


def the_run_has_another_seed(run: Path) -> None:
    path = run / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "seed": 8}))


def a_recording_was_added(run: Path) -> None:
    (run / "member-1" / "archive" / "9-0.rec").write_bytes(b"")


def a_trace_is_gone(run: Path) -> None:
    (run / "member-2" / "protocol.jsonl").unlink()


def the_seal_is_gone(run: Path) -> None:
    (run / "seal.json").unlink()


def the_seal_is_another(run: Path) -> None:
    path = run / "seal.json"
    path.write_text(path.read_text().replace('"history.jsonl"', '"history.json"'))


def the_manifest_does_not_name_the_seal(run: Path) -> None:
    path = run / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "sealed": None}))


def the_seal_and_its_name_are_gone(run: Path) -> None:
    the_seal_is_gone(run)
    the_manifest_does_not_name_the_seal(run)


def _bad(damage: Callable[[Path], None], *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(_SCENARIO, damage, Promise.EVIDENCE_SEALED, says, verdict)


SEALED = (
    _bad(a_byte_of_the_recording_log_is_another, "member-1/cluster/recording.log was changed"),
    _bad(a_byte_in_a_hole_is_another, "member-2/archive/1-0.rec was changed"),
    _bad(a_recording_is_longer, "member-0/archive/1-0.rec was changed"),
    _bad(the_run_has_another_seed, "manifest.json was changed"),
    _bad(a_recording_was_added, "member-1/archive/9-0.rec was added"),
    _bad(a_trace_is_gone, "member-2/protocol.jsonl was removed", verdict=Verdict.UNKNOWN),
    _bad(the_seal_is_gone, "seal.json is missing", verdict=Verdict.UNKNOWN),
    _bad(the_seal_is_another, "seal.json is not the one that the manifest names"),
    _bad(the_manifest_does_not_name_the_seal, "seal.json", verdict=Verdict.UNKNOWN),
    _bad(the_seal_and_its_name_are_gone, "although the run is over", verdict=Verdict.UNKNOWN),
)
