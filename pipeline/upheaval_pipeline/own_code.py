"""What verdicts rest on beside the judge's code: a user's model, the service as members ran it, Java for it, and the
processor time for its replay.
"""

import os
import shutil
from pathlib import Path

from upheaval.checkers.own.own_replay import replay_budget_s
from upheaval.checkers.own.replay_judgement import BUDGET_S
from upheaval.errors import EnvironmentFault, HarnessError
from upheaval.records import OWN_SYSTEM, Manifest, RunFolder, source_digest
from upheaval.records.own_source import code_digest

_MISSING, _PRESENT = "-", "+"


def own_code(manifest: Manifest) -> str:
    """What of it is on this machine now, in four words; empty for a run without code of its user."""
    if not (manifest.model or manifest.source):
        return ""
    model = source_digest(manifest.model_source, f"{manifest.model}:") if manifest.model else ""
    has_java = manifest.system != OWN_SYSTEM and shutil.which("java") is not None
    service, java = (_PRESENT if is_present else _MISSING for is_present in (_has_service(manifest), has_java))
    return f"{model or _MISSING} {service} {java} {_budget_s():g}"


def own_code_of(folder: Path) -> str:
    """The same of a run folder; empty where its manifest cannot be read."""
    try:
        return own_code(RunFolder(folder).read_manifest())
    except HarnessError:
        return ""


def has_more(now: str, before: str) -> bool:
    """Whether code that is there now was changed or missing before, or a service has more time for its replay.

    More time takes no verdict back that rests on code that is missing now.
    """
    (*code, budget_s), (*old_code, old_budget_s) = (_words(text) for text in (now, before))
    pairs = list(zip(code, old_code, strict=True))
    if any(word not in (_MISSING, old) for word, old in pairs):
        return True
    is_replayed = code[1] == _PRESENT and not any(word == _MISSING != old for word, old in pairs)
    return is_replayed and float(budget_s) > float(old_budget_s)


def _words(text: str) -> list[str]:
    """With the default budget where an earlier version wrote none."""
    model, service, java, *budget_s = text.split() or [_MISSING] * 3
    return [model, service, java, *(budget_s or [f"{BUDGET_S:g}"])]


def _budget_s() -> float:
    """0 where it is invalid: no replay ran with it, and any other is more."""
    try:
        return replay_budget_s(os.environ)
    except EnvironmentFault:
        return 0


def _has_service(manifest: Manifest) -> bool:
    """Changed code is as good as none: the judge does not run it."""
    if not manifest.source_digest or not Path(manifest.source).is_dir():
        return False
    return code_digest(manifest.source, manifest.service, manifest.system) == manifest.source_digest
