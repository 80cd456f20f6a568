"""The examples in the help of each command, by its name. Words in capitals stand for what the reader has."""

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "up": ("up --dir shop", "up --dir shop --members 5 --runtime docker --trace"),
    "status": ("status --dir shop", "status --dir shop --json"),
    "top": ("top --dir shop", "top --dir shop --count 10 --every 0.5 --json"),
    "client register read": ("client --dir shop register read k",),
    "client register write": ("client --dir shop register write k 5",),
    "client register cas": ("client --dir shop register cas k 5 6",),
    "client append": ("client --dir shop append k 1", "client --dir shop append --read k"),
    "client echo": ("client --dir shop echo hello",),
    "load": ("load --users 50 --duration 30s", "load --dir shop --web"),
    "down": ("down --dir shop",),
    "demo": ("demo", "demo --runtime docker --members 5"),
    "run": (
        "run leader-killed",
        "run leader-killed --runtime process --seed 7 --dir runs/7",
        "run leader-left-alone --planted commit-without-a-quorum",
    ),
    "replay": ("replay", "replay runs/7 --runtime simulated"),
    "campaign": ("campaign --seeds 1..100 --workers 2", "campaign --seeds 7..7 --dir runs/7"),
    "scenarios": ("scenarios",),
    "planted": ("planted",),
    "track-record": ("track-record 1601 --tries 5 --out track-record.md",),
    "kill": ("kill --dir shop 0",),
    "verify": ("verify", "verify runs/7 --all", "verify runs/* --json"),
    "check": ("check history.edn --model cas-register",),
    "export": ("export runs/7 --format knossos --out history.edn",),
    "report": ("report", "report runs/7 --out page.html"),
    "elections": ("elections", "elections runs/7 2"),
    "measure": ("measure runs/7",),
    "watch": ("watch --dir shop",),
    "trace": ("trace runs/7 --message NewLeadershipTerm", "trace runs/7 --from 2 --to 2.5"),
    "logs": ("logs --level warning", "logs runs/7 --member 0"),
    "tamper": ("tamper runs/7",),
    "ingest": ("ingest runs/7 runs/8 --lake lake",),
    "query": ("query --lake lake 'SELECT * FROM availability'", "query --lake lake --list"),
    "ask": ("ask --lake lake --out month.html", "ask failovers --lake lake"),
    "start": ("start --dir shop 0",),
    "stop": ("stop --dir shop 0",),
    "upgrade": ("upgrade --dir shop --app-version 1.2.0",),
    "replace": ("replace --dir shop 2 --copy-from 0",),
    "snapshot": ("snapshot --dir shop",),
    "suspend": ("suspend --dir shop",),
    "resume": ("resume --dir shop",),
    "shutdown": ("shutdown --dir shop",),
    "abort": ("abort --dir shop",),
    "backup": ("backup --dir shop start", "backup --dir shop wait"),
    "restore": ("restore --from shop/backup-0 --dir restored",),
    "standby": ("standby --dir shop start", "standby --dir shop snapshot"),
    "promote": ("promote --from shop/standby-0 --dir promoted",),
    "clean": ("clean --dry-run", "clean --runs 7d"),
    "images list": ("images list",),
    "images build": ("images build node toxiproxy",),
    "images own": ("images own bank --tag bank:1",),
    "images check": ("images check node",),
    "compose": ("compose 3-members > compose.yaml",),
    "init": ("init locks", "init --java stock"),
    "certificates create": ("certificates create --dir certificates --members 3",),
    "certificates reload": ("certificates reload --dir shop",),
    "credentials add": ("credentials add ann --file users --out ann.secret --role admin",),
    "credentials reload": ("credentials reload --dir shop",),
    "completion": ("completion bash > ~/.local/share/bash-completion/completions/upheaval",),
    "doctor": ("doctor",),
}


def examples_text(program: str, command: str) -> str:
    """As the help of a command ends."""
    lines = [f"  {program} {example}" for example in EXAMPLES.get(command, ())]
    return "\n".join([f"example{'s' if len(lines) > 1 else ''}:", *lines]) if lines else ""
