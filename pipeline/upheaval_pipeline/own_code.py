"""What verdicts rest on beside the judge's code: a user's model, the service as members ran it, and Java for it."""

import shutil
from pathlib import Path
from typing import Final

from upheaval.errors import HarnessError
from upheaval.records import OWN_SYSTEM, Manifest, RunFolder, source_digest
from upheaval.records.own_source import code_digest

_MISSING, _PRESENT = "-", "+"
_NOTHING: Final = " ".join([_MISSING] * 3)


def own_code(manifest: Manifest) -> str:
    """What of it is on this machine now, in three words; empty for a run without code of its user."""
    if not (manifest.model or manifest.source):
        return ""
    model = source_digest(manifest.model_source, f"{manifest.model}:") if manifest.model else ""
    has_java = manifest.system != OWN_SYSTEM and shutil.which("java") is not None
    service, java = (_PRESENT if is_present else _MISSING for is_present in (_has_service(manifest), has_java))
    return f"{model or _MISSING} {service} {java}"


def own_code_of(folder: Path) -> str:
    """The same of a run folder; empty where its manifest cannot be read."""
    try:
        return own_code(RunFolder(folder).read_manifest())
    except HarnessError:
        return ""


def has_more(now: str, before: str) -> bool:
    """Whether code that is there now was changed or missing before. Code that is missing now judges nothing anew."""
    words = zip(now.split(), (before or _NOTHING).split(), strict=False)
    return any(word not in (_MISSING, old) for word, old in words)


def _has_service(manifest: Manifest) -> bool:
    """Changed code is as good as none: the judge does not run it."""
    if not manifest.source_digest or not Path(manifest.source).is_dir():
        return False
    return code_digest(manifest.source, manifest.service, manifest.system) == manifest.source_digest
