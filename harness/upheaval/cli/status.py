"""`upheaval status`: what each member and each companion says about itself."""

import json
from dataclasses import asdict

from upheaval.cli.backup import companion_table
from upheaval.cli.parsing import ClusterOptions
from upheaval.cli.tables import number, table
from upheaval.records import CompanionStatus
from upheaval.runtimes.opening import open_cluster
from upheaval.system import MemberStatus


def status(options: ClusterOptions) -> int:
    """Print the status of members and companions as tables or as JSON."""
    with open_cluster(options.dir) as cluster:
        statuses = cluster.status()
        beside = [companion.status() for companion in cluster.companions()]
    if options.json:
        print(_json(statuses, beside))
        return 0
    print(_table(statuses))
    if beside:
        print()
        print(companion_table(beside))
    return 0


def _json(statuses: list[MemberStatus], beside: list[CompanionStatus]) -> str:
    fields = {
        "members": [asdict(status) for status in statuses],
        "companions": [asdict(companion) for companion in beside],
    }
    return json.dumps(fields, indent=2)


def _table(statuses: list[MemberStatus]) -> str:
    rows = [["member", "alive", "role", "term", "leader", "election", "appended", "committed", "pids"]]
    for status in statuses:
        pids = " ".join(f"{component}={pid}" for component, pid in status.pids.items())
        rows.append(
            [
                str(status.member_id),
                "yes" if status.alive else "no",
                status.role or "-",
                number(status.leadership_term_id),
                number(status.leader_member_id),
                status.election_state or "-",
                number(status.append_position),
                number(status.commit_position),
                pids or "-",
            ]
        )
    return table(rows)
