"""The command, also as ``python -m hwsonde_detector``: it hears signals before it loads what takes long."""

from __future__ import annotations

import sys

from hwsonde_detector import early
from hwsonde_detector.errors import shortage


def main() -> int:
    """Do what the command line says; give the exit status."""
    early.listen(sys.argv[1:])
    try:
        from hwsonde_detector import cli  # noqa: PLC0415 - a second's work, in which a signal may come
    except (MemoryError, ImportError, OSError) as error:
        if not (line := shortage(error)):
            raise
        if sys.stderr is not None:
            sys.stderr.write(f"hwsonde-detector: {line}\n")
        return 1 if early.serves(sys.argv[1:]) else 2
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
