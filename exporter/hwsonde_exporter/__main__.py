"""The command, also as ``python -m hwsonde_exporter``: it hears signals before it loads what takes long."""

from __future__ import annotations

import sys

from hwsonde_exporter import early


def main() -> int:
    """Do what the command line says; give the exit status."""
    early.listen(sys.argv[1:])
    from hwsonde_exporter import cli  # noqa: PLC0415 - most of the time that a start takes

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
