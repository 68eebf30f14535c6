"""Log lines on standard error: logfmt for people and collectors of logs alike, or JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("logfmt", "json")


class LineFormatter(logging.Formatter):
    """One line a record, with time (UTC), level, place and message; a traceback is folded into the line, at level debug only."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        fields = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "caller": f"{record.module}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            fields["error"] = f"{type(error).__name__}: {error}"
            if logging.getLogger().isEnabledFor(logging.DEBUG):
                fields["trace"] = self.formatException(record.exc_info)
        if self._json:
            return _json(fields)
        return " ".join(f"{key}={_quoted(value)}" for key, value in fields.items())


def set_up(level: str, form: str) -> None:
    """Send the root logger's records to standard error; may be called again with other settings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _quoted(value: str) -> str:
    if value and value.isprintable() and not any(character in value for character in ' "='):
        return value
    return _json(value)


def _json(value: object) -> str:
    """JSON in which every character shows: names from outside may turn a terminal's lines around, or end them."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)
