"""The one error that ends the quick start."""

from __future__ import annotations


class QuickstartError(Exception):
    """Something that the user can mend; its text is one line that says how."""
