"""Shipped presets: YAML files with the sections that decide what is found."""
