"""Settings of the detector's tests."""

from __future__ import annotations

from hypothesis import settings

# An example's time says nothing on a machine that other work shares; the test run has a time limit of its own.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
