"""``python -m quickstart up|demo``."""

import sys

from quickstart.cli import main

sys.exit(main())
