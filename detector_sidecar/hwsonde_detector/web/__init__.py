"""The detector's own page and its JSON API."""
