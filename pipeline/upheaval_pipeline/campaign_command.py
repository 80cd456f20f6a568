"""`upheaval campaign --engine spark`: seeds as tasks, and what came of them in a lake."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path

from upheaval.campaign.seed import SeedOrigin, SeedOutcome
from upheaval.campaign.seed_lines import SEEDS_FILE
from upheaval.cli.campaign import campaign_by
from upheaval.cli.fault_commands import CampaignOptions
from upheaval.errors import UsageError
from upheaval_pipeline.campaigns import ingest_campaigns
from upheaval_pipeline.lake import Lake, require_place
from upheaval_pipeline.seed_tasks import in_seed_tasks
from upheaval_pipeline.session import is_local
from upheaval_pipeline.shown_session import ShownSession, StageLine, shown_session
from upheaval_pipeline.tables import SEEDS_NAME

LOCAL_AGAIN = "local[*,4]"
"""All cores of this machine; as on other masters, a task that was lost runs again, up to four times."""


def campaign_on_spark(options: CampaignOptions) -> int:
    """Run the seeds; with `--lake`, write outcomes and tapes there. The exit status is that of the worst verdict."""
    if options.lake is not None and options.out is None:
        raise UsageError("a lake takes the lines of a campaign: add --out FOLDER to --lake")
    if options.lake is not None:
        # Not only when all seeds have run.
        require_place(options.lake)
        Lake(options.lake).require_room()
    master = options.master or LOCAL_AGAIN
    if options.service is not None and not is_local(master):
        raise UsageError(f"{options.service} exists only on this machine: leave out --master, or --service")
    with ExitStack() as stack:

        @cache
        def started() -> ShownSession:
            return stack.enter_context(shown_session(master, with_stages=False))

        def to_lake() -> None:
            if options.lake is not None and options.out is not None:
                _to_lake(started().line, options.out / SEEDS_FILE, options.lake)

        return campaign_by(partial(_in_tasks, started), options, to_lake)


@contextmanager
def _in_tasks(
    started: Callable[[], ShownSession], origins: Sequence[SeedOrigin], keep: Path | None
) -> Iterator[Iterator[SeedOutcome]]:
    """Spark starts when everything else of the campaign is known to be well."""
    with in_seed_tasks(started().spark, origins, keep) as outcomes:
        yield outcomes


def _to_lake(line: StageLine, lines: Path, lake: str) -> None:
    written = ingest_campaigns([lines], lake, line.say)
    line.say(f"{sum(rows[SEEDS_NAME] for rows in written.values())} seeds are in {lake}")
