"""The detector's configuration: YAML with line numbers, checked as a whole, frozen afterwards."""

from __future__ import annotations

from hwsonde_detector.config.addresses import ListenAddress
from hwsonde_detector.config.loading import load_config, parse_config, place, reload_config
from hwsonde_detector.config.models import Config
from hwsonde_detector.config.profiles import load_profiles, shipped_profiles
from hwsonde_detector.config.values import format_duration, parse_duration

__all__ = [
    "Config",
    "ListenAddress",
    "format_duration",
    "load_config",
    "load_profiles",
    "parse_config",
    "parse_duration",
    "place",
    "reload_config",
    "shipped_profiles",
]
