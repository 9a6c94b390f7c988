"""What the server says about itself, one line each, in the form of the request log: uvicorn's warnings, crashes.

Whatever it is, a secret in it is not told.
"""

from __future__ import annotations

import json
import logging
import sys
import time

from dibs import api_keys


class OneLine(logging.Formatter):
    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        text = api_keys.without_secrets(text)
        if self._as_json:
            return json.dumps({"at": at(record.created), "level": record.levelname.lower(), "message": text})
        # A crash is worth its lines; everything else is one.
        return f"{at(record.created)} {record.levelname.lower()} {text}"


def install(as_json: bool) -> None:
    """For this process, which has nothing else to log."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(as_json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


def at(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
