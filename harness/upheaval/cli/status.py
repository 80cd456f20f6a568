"""`upheaval status`: what each member says about itself."""

import json
from dataclasses import asdict
from pathlib import Path

from upheaval.cli.tables import table
from upheaval.cluster import MemberStatus
from upheaval.runtimes.opening import open_cluster


def status(folder: Path, *, as_json: bool) -> int:
    with open_cluster(folder) as cluster:
        statuses = cluster.status()
    print(_json(statuses) if as_json else _table(statuses))
    return 0


def _json(statuses: list[MemberStatus]) -> str:
    return json.dumps({"members": [asdict(status) for status in statuses]}, indent=2)


def _table(statuses: list[MemberStatus]) -> str:
    rows = [["member", "alive", "role", "term", "leader", "election", "appended", "committed", "pids"]]
    for status in statuses:
        pids = " ".join(f"{component}={pid}" for component, pid in status.pids.items())
        rows.append(
            [
                str(status.member_id),
                "yes" if status.alive else "no",
                status.role or "-",
                _number(status.leadership_term_id),
                _number(status.leader_member_id),
                status.election_state or "-",
                _number(status.append_position),
                _number(status.commit_position),
                pids or "-",
            ]
        )
    return table(rows)


def _number(value: int) -> str:
    return "-" if value < 0 else str(value)
