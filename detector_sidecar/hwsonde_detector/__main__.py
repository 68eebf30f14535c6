"""Lets ``python -m hwsonde_detector`` be the command."""

from __future__ import annotations

import sys

from hwsonde_detector.cli import main

if __name__ == "__main__":
    sys.exit(main())
