"""Answers whose texts may have names of files that are not UTF-8."""

import json
from typing import Any

from starlette.responses import Response


def ascii_json(content: Any, status_code: int = 200) -> Response:
    """JSON with escapes for all else, lone surrogates too. Raises `ValueError` for a number that JSON does not have."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(text, status_code=status_code, media_type="application/json")
