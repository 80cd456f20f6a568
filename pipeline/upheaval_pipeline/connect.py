"""A session of Spark Connect, which needs no Java on this machine."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Final

from upheaval.errors import EnvironmentFault
from upheaval.records import owned_folder
from upheaval_pipeline.packages import write_archive
from upheaval_pipeline.session import PAGE_CHECKSUMS, cause_of, require_spark

INSTALL: Final = "pip install 'pyspark[connect]'"
_ANSWER_TIMEOUT_S: Final = 30.0
_LOGGERS: Final = ("pyspark.sql.connect", "pyspark.sql.connect.client.logging", "grpc")


@contextmanager
def connect_session(master: str, *, with_tasks: bool = False) -> Iterator[Any]:
    """A session on a server, ended on the way out. It has our sources and runs our work in tasks only `with_tasks`:
    queries do without Python of this version there.

    Raises `EnvironmentFault` where its client is not installed, no server answers, or a query fails.
    """
    require_spark(master)
    try:
        import pyspark.sql.connect.session  # noqa: F401 - it looks for all that the client needs
    except ImportError as error:
        raise EnvironmentFault(f"{cause_of(error)}: {INSTALL}") from None
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        _require_server(master)
        # This builder also tells `pyspark.sql.functions` that there is no Spark in this process.
        spark = SparkSession.builder.remote(master).getOrCreate()
        try:
            if spark.conf.get(f"spark.hadoop.{PAGE_CHECKSUMS}", None) is None:  # the server's own
                spark.conf.set(PAGE_CHECKSUMS, "true")
            if with_tasks:
                _send_packages(spark)
            yield spark
        finally:
            spark.stop()
    except (PySparkException, grpc.RpcError) as error:
        raise EnvironmentFault(f"Spark Connect failed at {master}: {cause_of(error)}") from error


def _send_packages(spark: Any) -> None:
    from upheaval_pipeline import sources

    with owned_folder("spark") as scratch:
        archive = str(write_archive(scratch))
        spark.addArtifacts(archive, pyfile=True)
        # The client imports from it, too, as long as it is there.
        sys.path.remove(archive)
    sources.register(spark)


def _require_server(master: str) -> None:
    """The client itself tries for minutes."""
    from grpc import ChannelConnectivity
    from pyspark.sql.connect.client import DefaultChannelBuilder

    states: SimpleQueue[Any] = SimpleQueue()
    state, channel = ChannelConnectivity.IDLE, DefaultChannelBuilder(master).toChannel()
    channel.subscribe(states.put, try_to_connect=True)
    try:
        while state in (ChannelConnectivity.IDLE, ChannelConnectivity.CONNECTING):
            state = states.get(timeout=_ANSWER_TIMEOUT_S)
    except Empty:
        pass
    finally:
        channel.close()
    if state is not ChannelConnectivity.READY:
        raise EnvironmentFault(f"no Spark Connect server answers at {master}")
