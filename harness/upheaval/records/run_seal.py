"""The seal of a run: digests of its files when it was collected, so that later changes can be named.

`seal.json` has a digest for each file that the run is judged by, and the manifest has the digest of `seal.json`. This
module knows nothing of the contents of the files.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import jsonfields
from upheaval.records.client_stalls import STALLS_NAME
from upheaval.records.cluster_texts import CLUSTER_FILE
from upheaval.records.companions import COMPANIONS_FILE, companion_folders
from upheaval.records.connect_attempts import ATTEMPTS_NAME
from upheaval.records.folder_lock import locked
from upheaval.records.jsonfields import FieldError
from upheaval.records.origin import ORIGIN_FILE
from upheaval.records.payloads import SCHEMA_FILE
from upheaval.records.run_folder import (
    CONSENSUS_NAME,
    SCENARIO_NAME,
    SESSIONS_NAME,
    Failure,
    RunFolder,
    write_atomically,
)
from upheaval.records.sparse_files import data_extents
from upheaval.records.strays import STRAYS_NAME

FORMAT_VERSION: Final = 1
_BLOCK_LENGTH: Final = 64 * 1024
_ZEROS: Final = bytes(_BLOCK_LENGTH)


@dataclass(frozen=True, slots=True)
class Seal:
    """Digests by the paths of files in the run folder. That of the manifest leaves out its field `sealed`."""

    manifest: str
    files: Mapping[str, str]


def seal(run: RunFolder) -> None:
    """Seal a run whose files are complete; do nothing if it is sealed.

    Raises `EnvironmentFault` when its files cannot be read or the seal cannot be written.
    """
    with locked(run.path):
        manifest = run.read_manifest()
        if manifest.sealed is not None:
            return
        try:
            digests = seal_of(run)
        except OSError as error:
            raise EnvironmentFault(f"cannot seal {run.path}: {error}") from error
        text = json.dumps({"format": FORMAT_VERSION, **asdict(digests)}, indent=2) + "\n"
        write_atomically(run.seal_file, text)
        write_atomically(run.manifest_file, replace(manifest, sealed=digest_of_text(text)).to_json())


@contextmanager
def sealed_again(run: RunFolder) -> Iterator[None]:
    """What the block changes in the files of a run that was collected is no tampering: the run has no seal meanwhile,
    and another one afterwards. A run without a seal, or whose files already differ from it, stays as it is.

    Raises as `seal`.
    """
    if not _is_intact(run):
        yield
        return
    run.unseal()
    try:
        yield
    finally:
        seal(run)


def _is_intact(run: RunFolder) -> bool:
    try:
        text = jsonfields.read_text(run.seal_file)
        is_named = run.read_manifest().sealed == digest_of_text(text)
        return is_named and read_seal(run, text) == seal_of(run)
    except (OSError, EnvironmentFault, UsageError):
        return False


def add_failure(run: RunFolder, failure: Failure) -> None:
    """Write into the manifest why the run failed, and renew its seal if it had one. Do nothing without a manifest.

    Raises as `seal`.
    """
    if not run.manifest_file.is_file():
        return
    was_sealed = run.read_manifest().sealed is not None
    run.change_manifest(lambda manifest: replace(manifest, failures=(*manifest.failures, failure)))
    if was_sealed:
        seal(run)


def seal_of(run: RunFolder) -> Seal:
    """The seal that the run would get in its present state. Raises `OSError` for a file that cannot be read."""
    fields = jsonfields.parse_object(jsonfields.read_text(run.manifest_file))
    unsealed = {name: value for name, value in fields.items() if name != "sealed"}
    manifest = digest_of_text(json.dumps(unsealed, sort_keys=True))
    files = _sealed_files(run)
    # Folders that do not name these files were sealed without them.
    written = fields.get("written")
    if isinstance(written, list):
        paths = (
            run.path / name for name in (SESSIONS_NAME, STRAYS_NAME, SCENARIO_NAME, CLUSTER_FILE) if name in written
        )
        files += [path for path in paths if path.is_file()]
    return Seal(manifest, {str(path.relative_to(run.path)): digest_of_file(path) for path in sorted(files)})


def read_seal(run: RunFolder, text: str) -> Seal:
    """Decode a seal. Raises `UsageError` for a text that is not one."""
    try:
        fields = jsonfields.parse_object(text)
        if jsonfields.integer(fields, "format") != FORMAT_VERSION:
            raise FieldError(f"expected format {FORMAT_VERSION}, got {fields['format']}")
        return jsonfields.decode(Seal, fields)
    except FieldError as error:
        raise UsageError(f"{run.seal_file}: {error}") from None


def digest_of_text(text: str) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_file(path: Path) -> str:
    """SHA-256 of the file's length, then the offset and content of each 64 KiB block that is not all zeros.

    So holes cost nothing, and a copy has the same digest with or without them.
    """
    whole = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        length = os.fstat(stream.fileno()).st_size
        whole.update(length.to_bytes(8, "little"))
        for offset in _block_offsets(stream.fileno(), length):
            block = os.pread(stream.fileno(), _BLOCK_LENGTH, offset)
            if block != _ZEROS[: len(block)]:
                whole.update(offset.to_bytes(8, "little"))
                whole.update(block)
    return whole.hexdigest()


def _block_offsets(fd: int, length: int) -> Iterator[int]:
    """The offsets of the blocks that contain data."""
    position = 0
    for begin, end in data_extents(fd, length):
        position = max(position, begin - begin % _BLOCK_LENGTH)
        while position < end:
            yield position
            position += _BLOCK_LENGTH


def _sealed_files(run: RunFolder) -> list[Path]:
    """The files that a run is judged by: all of members and companions, and the others that nothing appends to."""
    names = (COMPANIONS_FILE, ORIGIN_FILE, ATTEMPTS_NAME, STALLS_NAME, CONSENSUS_NAME, SCHEMA_FILE, "security.json")
    paths = [run.history_file, run.faults_file, run.controls_file, *(run.path / name for name in names)]
    members = [path for path in run.path.glob("member-*") if path.is_dir()]
    for folder in (*members, *companion_folders(run.path)):
        paths += folder.rglob("*")
    return [path for path in paths if path.is_file()]
