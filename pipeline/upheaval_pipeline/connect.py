"""A session of Spark Connect. It answers SQL and runs nothing of ours, and needs no Java on this machine."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from upheaval.errors import EnvironmentFault

CONNECT: Final = "sc://"
INSTALL: Final = "pip install 'pyspark[connect]'"
_ANSWER_TIMEOUT_S: Final = 10.0
_LOGGERS: Final = ("pyspark.sql.connect", "pyspark.sql.connect.client.logging", "grpc")


def is_connect(master: str | None) -> bool:
    """Whether a master is a server of Spark Connect."""
    return master is not None and master.startswith(CONNECT)


@contextmanager
def connect_session(master: str) -> Iterator[Any]:
    """A session on a server, ended on the way out.

    Raises `EnvironmentFault` where its client is not installed, no server answers, or a query fails.
    """
    try:
        import pyspark.sql.connect.session  # noqa: F401 - it looks for all that the client needs
    except ImportError as error:
        raise EnvironmentFault(f"{_first_line(error)}: {INSTALL}") from None
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
            yield spark
        finally:
            spark.stop()
    except (PySparkException, grpc.RpcError) as error:
        raise EnvironmentFault(f"Spark Connect failed at {master}: {_first_line(error)}") from error


def _require_server(master: str) -> None:
    """The client itself tries for minutes."""
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    channel = DefaultChannelBuilder(master).toChannel()
    try:
        grpc.channel_ready_future(channel).result(_ANSWER_TIMEOUT_S)
    except grpc.FutureTimeoutError:
        raise EnvironmentFault(
            f"no Spark Connect server answers at {master} within {_ANSWER_TIMEOUT_S:.0f} s"
        ) from None
    finally:
        channel.close()


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
