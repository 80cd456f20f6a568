"""Edits of recorded snapshots, of members and of the nodes beside them."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from upheaval.checkers.promises import Promise
from upheaval.records import MemberFolder
from upheaval.tamper.edit import applied_by, edit
from upheaval.tamper.log_change import (
    CLIENT_SESSION,
    CLUSTER_SESSION,
    MARKER,
    MODULE_STATE,
    MODULE_TIMER,
    TRACKER,
    place_in_the_middle,
    place_of,
    without,
)
from upheaval.tamper.recordings import (
    MODULE,
    SNAPSHOT,
    STANDBY_SNAPSHOT,
    Entry,
    LogRecord,
    log_of,
    log_records,
    put_log_records,
    recording_of,
)
from upheaval.tamper.run_copy import COMPANIONS, CONTROLS, Lacking, RunCopy, need, remove

_HEADER: Final = 8
Messages = list[Entry]


def _snapshots(folder: MemberFolder, *, of_module: bool) -> list[LogRecord]:
    return [
        record
        for record in log_records(folder)
        if record.what == SNAPSHOT and record.is_valid and (record.service == MODULE) == of_module
    ]


def _change(folders: Iterable[MemberFolder], change: Callable[[Messages], Messages], *, of_module: bool) -> None:
    """Change the last snapshot of each node, and its length in catalog and recording log. Raises `Lacking`."""
    for folder in folders:
        snapshots = _snapshots(folder, of_module=of_module)
        need(snapshots, "no snapshot")
        recording = recording_of(folder, snapshots[-1].recording_id)
        end = recording.write(change(recording.read()))
        recording.stop_at(end)
        records = log_records(folder)
        at = next(at for at, record in enumerate(records) if record.at == snapshots[-1].at)
        records[at] = records[at].of_length(end)
        put_log_records(folder, records)


def _all(run: RunCopy) -> list[MemberFolder]:
    """The members and companions that have snapshots; without any, one member."""
    return [folder for folder in run.node_folders() if _snapshots(folder, of_module=True)] or [run.last_member]


def _place_of(messages: Messages, template: int) -> int:
    what = f"no message of template {template} in a snapshot"
    return place_of(messages, lambda message: message.template == template, what)


def _adding(template: int, offset: int, number: int = 1) -> Callable[[Messages], Messages]:
    def changed(messages: Messages) -> Messages:
        message = messages[_place_of(messages, template)]
        message.put(_HEADER + offset, "q", message.long(_HEADER + offset) + number)
        return messages

    return changed


def _without(template: int) -> Callable[[Messages], Messages]:
    """Removes the first message of a template."""
    return lambda messages: without(messages, _place_of(messages, template))


def _other_state(messages: Messages) -> Messages:
    """Change the last byte of the service's own message."""
    own = [message for message in messages if message.template not in (MARKER, CLIENT_SESSION)]
    need(own, "no state in a snapshot")
    own[-1].message[-1] ^= 1
    return messages


def the_state_of_a_service_differs_on_a_member(run: RunCopy) -> None:
    """A byte of a state on one member."""
    _change([run.last_member], _other_state, of_module=False)


def the_state_of_a_service_is_wrong_on_all_members(run: RunCopy) -> None:
    """A byte of a state on all members."""
    _change(_all(run), _other_state, of_module=False)


def a_service_lost_a_session_on_all_members(run: RunCopy) -> None:
    """A session in all snapshots of a service."""
    _change(_all(run), _without(CLIENT_SESSION), of_module=False)


def a_module_lost_a_session(run: RunCopy) -> None:
    """A session in one module's snapshot."""
    _change([run.last_member], _without(CLUSTER_SESSION), of_module=True)


def all_modules_lost_a_session(run: RunCopy) -> None:
    """A session in all modules' snapshots."""
    _change(_all(run), _without(CLUSTER_SESSION), of_module=True)


def all_modules_lost_a_timer(run: RunCopy) -> None:
    """A timer in all modules' snapshots."""
    _change(_all(run), _without(MODULE_TIMER), of_module=True)


def all_modules_have_a_later_deadline(run: RunCopy) -> None:
    """A deadline in all modules' snapshots."""
    _change(_all(run), _adding(MODULE_TIMER, 8), of_module=True)


def all_modules_have_another_next_session(run: RunCopy) -> None:
    """The next session id in all modules' snapshots."""
    _change(_all(run), _adding(MODULE_STATE, 0), of_module=True)


def all_modules_have_another_next_message(run: RunCopy) -> None:
    """The next message of a service in all of them."""
    _change(_all(run), _adding(TRACKER, 0), of_module=True)


def all_modules_lost_their_tracker(run: RunCopy) -> None:
    """The messages of a service in all of them."""
    _change(_all(run), _without(TRACKER), of_module=True)


def all_sessions_opened_elsewhere(run: RunCopy) -> None:
    """Where a session opened in all of them."""
    _change(_all(run), _adding(CLUSTER_SESSION, 16, 32), of_module=True)


def a_session_was_last_active_later(run: RunCopy) -> None:
    """When a session was active in all of them."""
    _change(_all(run), _adding(CLUSTER_SESSION, 24, 3_600_000), of_module=True)


def all_snapshots_are_of_another_position(run: RunCopy) -> None:
    """The position in all modules' snapshots."""
    _change(_all(run), _adding(MARKER, 8, 32), of_module=True)


def all_snapshots_are_of_another_term(run: RunCopy) -> None:
    """The term in all modules' snapshots."""
    _change(_all(run), _adding(MARKER, 16), of_module=True)


def a_snapshot_breaks_off(run: RunCopy) -> None:
    """The end of a snapshot."""
    _change([run.last_member], lambda messages: messages[:-1], of_module=True)


# --- backups and standbys ---


def a_backup_has_another_byte(run: RunCopy) -> None:
    """A byte of a companion's log."""
    log = log_of(_companion(run))
    entries = log.read()
    entries[place_in_the_middle(entries)].message[-1] ^= 1
    log.write(entries)


def _companion(run: RunCopy) -> MemberFolder:
    try:
        return run.companion("backup")
    except Lacking:
        return run.companion("standby")


def _put_position(run: RunCopy, name: str, position: int) -> None:
    with run.changing_object(COMPANIONS) as companions:
        for config in companions["companions"]:
            if config["name"] == name:
                config["position"] = position


def a_backup_reports_more_than_it_has(run: RunCopy) -> None:
    """The position in companions.json, higher."""
    folder = _companion(run)
    _put_position(run, folder.name, log_of(folder).read()[-1].end + 96)


def a_backup_lacks_the_snapshot_of_a_service(run: RunCopy) -> None:
    """The services' parts of a companion's snapshots."""
    _drop_records(_companion(run), lambda record: record.what == SNAPSHOT and record.service != MODULE)


def a_backup_has_no_snapshot(run: RunCopy) -> None:
    """A companion's snapshots."""
    _drop_records(_companion(run), lambda record: record.what == SNAPSHOT)


def a_backup_lacks_a_term(run: RunCopy) -> None:
    """A companion's last term."""
    folder = _companion(run)
    last = max(record.term for record in log_records(folder))
    need(last, "one term")
    _drop_records(folder, lambda record: record.term == last)


def _drop_records(folder: MemberFolder, is_gone: Callable[[LogRecord], bool]) -> None:
    records = log_records(folder)
    left = [record for record in records if not is_gone(record)]
    need(len(left) < len(records), f"no such record of {folder.name}")
    put_log_records(folder, left)


def a_backup_has_another_state(run: RunCopy) -> None:
    """A byte of a state in a companion's snapshot."""
    folder = _companion(run)
    need(_snapshots(folder, of_module=False), f"no snapshot of {folder.name}")
    _change([folder], _other_state, of_module=False)


def there_was_no_backup(run: RunCopy) -> None:
    """A companion with all its files.

    Its folder, its entry and its commands are gone.
    """
    folder = _companion(run)
    shutil.rmtree(folder.path)
    (run.path / COMPANIONS).unlink()
    with run.changing(CONTROLS) as controls:
        controls[:] = [command for command in controls if not command["what"].startswith(("backup", "standby "))]
    with run.manifest() as manifest:
        planned = manifest["planned_commands"]
        manifest["planned_commands"] = [what for what in planned if not what.startswith(("backup", "standby "))]


def the_folder_of_a_backup_is_gone(run: RunCopy) -> None:
    """The folder of a companion."""
    shutil.rmtree(_companion(run).path)


def the_list_of_companions_is_gone(run: RunCopy) -> None:
    """Companions.json."""
    remove(run.path / COMPANIONS, "no companions")


def the_trace_of_a_backup_is_gone(run: RunCopy) -> None:
    """The trace of a companion."""
    remove(_companion(run).trace, "no trace of a backup")


def a_backup_had_its_log_before_it_was_committed(run: RunCopy) -> None:
    """A companion's trace, 2 s earlier."""
    folder = _companion(run)
    with run.changing(f"{folder.name}/trace.jsonl") as lines:
        for line in lines:
            line["ts"] -= 2 * 10**9
            line["epoch_ms"] -= 2000


def a_backup_names_another_term(run: RunCopy) -> None:
    """Where a term begins in a companion's trace."""
    folder = _companion(run)
    with run.changing(f"{folder.name}/trace.jsonl") as lines:
        terms = [line for line in lines if line["event"] == "backup_term"]
        need(terms, "no term in the trace of a backup")
        terms[-1]["term_base_log_position"] += 320


def no_member_has_a_notice_of_a_standby(run: RunCopy) -> None:
    """All notices of a standby's snapshots."""
    for folder in (run.folder.member(member) for member in run.members):
        _drop_records(folder, lambda record: record.what == STANDBY_SNAPSHOT)


def _change_notices(run: RunCopy, change: Callable[[LogRecord], LogRecord]) -> None:
    for folder in (run.folder.member(member) for member in run.members):
        records = log_records(folder)
        need(any(record.what == STANDBY_SNAPSHOT for record in records), "no notice of a standby")
        put_log_records(folder, [change(one) if one.what == STANDBY_SNAPSHOT else one for one in records])


@applied_by(_change_notices)
def notices_of_a_standby_name_another_position(record: LogRecord) -> LogRecord:
    """The position in notices of a standby."""
    return replace(record, position=record.position - 96)


@applied_by(_change_notices)
def notices_of_a_standby_name_another_recording(record: LogRecord) -> LogRecord:
    """The recording in notices of a standby."""
    return replace(record, recording_id=record.recording_id + 50)


_REPLAY = (Promise.SNAPSHOT_IS_REPLAY, Promise.STATES_AGREE)
_BACKUP = Promise.BACKED_UP
_BOUND = Promise.EVIDENCE_BOUND
_COMPLETE = Promise.EVIDENCE_COMPLETE

SNAPSHOT_EDITS = (
    edit(the_state_of_a_service_differs_on_a_member, *_REPLAY),
    edit(the_state_of_a_service_is_wrong_on_all_members, *_REPLAY),
    edit(a_service_lost_a_session_on_all_members, *_REPLAY),
    edit(a_module_lost_a_session, *_REPLAY),
    edit(all_modules_lost_a_session, *_REPLAY),
    edit(all_modules_lost_a_timer, *_REPLAY, Promise.TIMERS_KEPT),
    edit(all_modules_have_a_later_deadline, *_REPLAY, Promise.TIMERS_KEPT),
    edit(all_modules_have_another_next_session, *_REPLAY),
    edit(all_modules_have_another_next_message, *_REPLAY),
    edit(all_modules_lost_their_tracker, *_REPLAY),
    edit(all_sessions_opened_elsewhere, *_REPLAY),
    edit(a_session_was_last_active_later, *_REPLAY),
    edit(all_snapshots_are_of_another_position, *_REPLAY),
    edit(all_snapshots_are_of_another_term, *_REPLAY),
    edit(a_snapshot_breaks_off, *_REPLAY),
    edit(a_backup_has_another_byte, _BACKUP),
    edit(a_backup_reports_more_than_it_has, _BACKUP),
    edit(a_backup_lacks_the_snapshot_of_a_service, _BACKUP, _BOUND),
    edit(a_backup_has_no_snapshot, _BACKUP, _COMPLETE),
    edit(a_backup_lacks_a_term, _BACKUP, _BOUND),
    edit(a_backup_has_another_state, _BACKUP, *_REPLAY),
    edit(there_was_no_backup, _BACKUP, _COMPLETE),
    edit(the_folder_of_a_backup_is_gone, _BACKUP, _COMPLETE),
    edit(the_list_of_companions_is_gone, _BACKUP, _COMPLETE),
    edit(the_trace_of_a_backup_is_gone, _BACKUP, _COMPLETE),
    edit(a_backup_had_its_log_before_it_was_committed, _BACKUP, _BOUND),
    edit(a_backup_names_another_term, _BACKUP, _BOUND),
    edit(no_member_has_a_notice_of_a_standby, _COMPLETE, _BACKUP),
    edit(notices_of_a_standby_name_another_position, _BOUND, _BACKUP),
    edit(notices_of_a_standby_name_another_recording, _BOUND, _BACKUP),
)
