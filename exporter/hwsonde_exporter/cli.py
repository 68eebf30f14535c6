"""The command ``hwsonde-exporter``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from hwsonde_exporter import logs
from hwsonde_exporter.config import load
from hwsonde_exporter.errors import ExporterError
from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.service import print_once, serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status: 0, or 2 after one line on standard error."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    kinds = load_collectors()
    try:
        settings = load(arguments, kinds)
        logs.set_up(settings.log_level, settings.log_format)
        if settings.once:
            return print_once(settings, kinds, _write)
        return serve(settings, kinds, lambda: load(arguments, kinds))
    except ExporterError as error:
        sys.stderr.write(f"hwsonde-exporter: {error}\n")
        return 2
    except BrokenPipeError:
        # Whoever read standard output has seen enough; the interpreter must not try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _write(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
