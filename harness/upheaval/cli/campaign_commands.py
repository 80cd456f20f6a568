"""The arguments of `upheaval campaign`. The command imports what it needs, so that a wrong option answers at once."""

import argparse
from pathlib import Path
from typing import Any


def add_commands(commands: Any) -> None:
    """Add `campaign` to the command line."""
    parser = commands.add_parser("campaign", help="seeds of the simulated runtime, each another cluster and faults")
    parser.add_argument("--seeds", default="1..100", metavar="A..B", help="both included (default 1..100)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--json", action="store_true", help="the summary as JSON")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="a line of JSON for each seed, and the summary")
    parser.add_argument("--dir", type=Path, help="keep the run folder of the one seed that is run")
    parser.add_argument("--planted", metavar="BUG", help="a test build: run until a seed catches this bug")
    parser.set_defaults(command=_campaign)


def _campaign(options: argparse.Namespace) -> int:
    from upheaval.cli import campaign

    return campaign.campaign(options)
