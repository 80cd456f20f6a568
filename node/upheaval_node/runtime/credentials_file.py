"""Reads credentials from where a configuration says they are: a file, or a variable of the environment (`env:NAME`).

Variables keep a secret off the disk; in a file it may be read by its owner only, as far as the file's mode goes.
`upheaval_node.credentials` describes the contents.
"""

import os
from typing import Final

from upheaval_node.credentials import CredentialsSupplier, NoCredentials, parse_credentials
from upheaval_node.errors import UsageError

ENVIRONMENT_PREFIX: Final = "env:"
MAX_LENGTH: Final = 1024 * 1024


def read_source(source: str) -> str:
    """The text of a file or of `env:NAME`. Raises `UsageError` with one line that names the source."""
    if source.startswith(ENVIRONMENT_PREFIX):
        name = source.removeprefix(ENVIRONMENT_PREFIX)
        text = os.environ.get(name)
        if text is None:
            raise UsageError(f"expected credentials in the environment variable {name!r}, which is not set")
        return text
    try:
        with open(source, encoding="utf-8") as stream:
            text = stream.read(MAX_LENGTH + 1)
    except OSError as error:
        raise UsageError(f"cannot read credentials in {source}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"credentials in {source} are not UTF-8 text") from error
    if len(text) > MAX_LENGTH:
        raise UsageError(f"credentials in {source} take more than {MAX_LENGTH} characters")
    return text


def credentials_supplier(source: str) -> CredentialsSupplier:
    """What a client or a backup shows: "" for empty credentials, else one `principal:secret`. Raises `UsageError`."""
    return parse_credentials(read_source(source), source) if source else NoCredentials()
