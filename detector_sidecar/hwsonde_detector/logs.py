"""Log lines on standard error: one line an event, logfmt or JSON, times in UTC."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

ROOT = "hwsonde_detector"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def set_up(level: str = "info", form: str = "logfmt", stream: TextIO | None = None) -> None:
    """Send the detector's log lines to a stream; calling it again replaces what was set up before.

    Parameters
    ----------
    level
        One of `LEVELS`.
    form
        ``logfmt`` or ``json``.
    stream
        Where to; None: standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Lines(as_json=form == "json"))
    logger = logging.getLogger(ROOT)
    for old in list(logger.handlers):
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(LEVELS[level])
    logger.propagate = False


def report(error: BaseException) -> None:
    """Write the one line of a defect that nothing else caught."""
    logging.getLogger(ROOT).error("a defect of the detector, please report this line: %s", _place(error))


class _Lines(logging.Formatter):
    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Give one line, whatever the message holds."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        room = record.name.removeprefix(ROOT).lstrip(".")
        fields = (
            {"ts": at, "level": record.levelname.lower()}
            | ({"room": room} if room else {})
            | {"msg": record.getMessage()}
        )
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = _place(record.exc_info[1])
        if self._as_json:
            return _json(fields)
        return " ".join(f"{key}={_quoted(value)}" for key, value in fields.items())


def _place(error: BaseException) -> str:
    """Type, text and the innermost place: what a report of a defect needs, on one line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}: {error}{place}"


def _quoted(text: str) -> str:
    if text and all(letter.isalnum() or letter in "-_.:/%+,;@" for letter in text):
        return text
    return _json(text)


def _json(value: object) -> str:
    """JSON in which every character shows: names from outside may turn a terminal's lines around, or end them."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)
