"""``python -m hwsonde_exporter``."""

import sys

from hwsonde_exporter.cli import main

sys.exit(main())
