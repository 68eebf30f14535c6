"""`python -m benchmarks.faults`."""

import sys

from benchmarks.faults.cli import main

sys.exit(main())
