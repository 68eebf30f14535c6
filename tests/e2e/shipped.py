"""The Alertmanager configurations as they are shipped, with another address to page to, and with quicker clocks."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from alert_rules.receivers import PagerDuty
from alert_rules.timing import Timing
from quickstart.layout import ROOT, Options, url

FOLDER = ROOT / "alert_rules" / "alertmanager"
TIMES = ("group_wait", "group_interval", "repeat_interval")
SECONDS = {"s": 1, "m": 60, "h": 3600}


def shipped(profile: str, address: str, key_file: Path, factor: int = 1) -> dict[str, Any]:
    """The committed configuration of a profile: pages go to ``address``, and every time is divided by ``factor``."""
    text, usual = (FOLDER / f"{profile}.yml").read_text(encoding="utf-8"), PagerDuty()
    for old, new in ((usual.url, address), (usual.routing_key_file, str(key_file))):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    document: dict[str, Any] = yaml.safe_load(text)
    if factor != 1:
        _quicken(document["route"], factor)
    return document


def _quicken(route: dict[str, Any], factor: int) -> None:
    for name in TIMES:
        if name in route:
            route[name] = divided(route[name], factor)
    for below in route.get("routes", ()):
        _quicken(below, factor)


def divided(duration: str, factor: int) -> str:
    """A duration of Prometheus, divided."""
    number = re.fullmatch(r"(\d+)([smh])", duration)
    assert number is not None, duration
    return f"{int(number[1]) * SECONDS[number[2]] * 1000 // factor}ms"


def quick(timing: Timing, factor: int) -> Timing:
    """A profile whose every time is divided; what is written into single rules (``[1h]``) stays."""
    times = {one.name: int(getattr(timing, one.name)) for one in fields(timing) if one.name != "name"}
    assert all(seconds % factor == 0 for seconds in times.values()), times
    return Timing(name=timing.name, **{name: seconds // factor for name, seconds in times.items()})


def expect_shipped(options: Options) -> None:
    """Fails unless the Alertmanager of a stack runs with what is shipped, but for the address and the key."""
    running = yaml.safe_load((options.config / "alertmanager.yml").read_text(encoding="utf-8"))
    assert running == shipped("fast", url(options.ports.events, "/v2/enqueue"), options.config / "stand-in.key")
