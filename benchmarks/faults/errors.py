"""The one error that ends the bench."""

from __future__ import annotations


class BenchError(Exception):
    """Something that the user can mend; its text is one line that says how."""
