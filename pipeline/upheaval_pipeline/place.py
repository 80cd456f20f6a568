"""Where a lake is, for whatever reads and writes it: Arrow, Delta and Spark.

A place is a folder or the address of an object store. Credentials, region and endpoint of an object store come from
its own variables (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`), which Arrow and Delta both read.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pyarrow import fs

from upheaval.errors import UsageError

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9]*://")
_OF_HADOOP: Final = {"s3": "s3a"}
_NOT_FOR_DELTA: Final = re.compile(r"[\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class Place:
    """The root of a lake; `text` is the same for `s3a://b/lake` and `s3://b/lake`."""

    def __init__(self, where: str) -> None:
        """Raises `UsageError` for an address that Arrow cannot open."""
        scheme, separator, rest = where.partition("://")
        self.is_remote = separator != "" and _ADDRESS.match(where) is not None and scheme != "file"
        if self.is_remote:
            names = {hadoop: name for name, hadoop in _OF_HADOOP.items()}
            self.text = f"{names.get(scheme, scheme)}://{rest.rstrip('/')}"
        else:
            path = url2pathname(urlsplit(where).path) if where.startswith("file://") else where
            self.text = str(Path(path).absolute())
            if _NOT_FOR_DELTA.search(self.text):
                raise UsageError(
                    f"{self.text!r} cannot be a lake: Delta takes no control characters and no %XX in a path"
                )
        try:
            self.files, self.root = fs.FileSystem.from_uri(self.text)
        except (OSError, ValueError) as error:
            raise UsageError(f"{where} is not a lake: {_first_line(error)}") from None

    def path(self, inner: str) -> str:
        """A path below the root, as `files` takes it."""
        return f"{self.root}/{inner}"

    def shown(self, inner: str) -> str:
        """A path below the root, for people, Delta and DuckDB."""
        return f"{self.text}/{inner}"

    def for_spark(self, inner: str) -> str:
        """A path below the root, as Hadoop names it."""
        scheme, _, rest = self.text.partition("://")
        return f"{_OF_HADOOP.get(scheme, scheme)}://{rest}/{inner}" if self.is_remote else self.shown(inner)

    @property
    def delta_options(self) -> Mapping[str, str] | None:
        """What Delta's own client needs beside the variables: leave to talk to an endpoint without TLS."""
        return {"allow_http": "true"} if self.is_remote and endpoint().startswith("http://") else None

    def sizes(self) -> dict[str, int]:
        """The size of every file below the root. Raises `UsageError` when they cannot be listed."""
        everything = fs.FileSelector(self.root, allow_not_found=True, recursive=True)
        try:
            infos = self.files.get_file_info(everything)
        except OSError as error:
            raise UsageError(f"{self.text} is not a lake: {_first_line(error)}") from None
        return {info.path[len(self.root) + 1 :]: info.size for info in infos if info.is_file}


def endpoint() -> str:
    """The address of an object store that is not Amazon's; empty without one."""
    return next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
