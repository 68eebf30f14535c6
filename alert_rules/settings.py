"""Alerts about settings that differ from the peers' or were changed. No input, no output."""

from __future__ import annotations

from alert_rules.timing import Timing
from alert_rules.wording import words
from alert_rules.writing import INFO, WARNING, Rule, Writer, largest

DIFFERS = "entity_setting:hwsonde_setting_differs:max"
_SECONDS = 3600


def rules(timing: Timing, writer: Writer) -> list[Rule]:
    """Every rule of the group."""
    return [
        largest(DIFFERS, "hwsonde_setting_differs"),
        writer.alert(
            "HwsondeSettingDiffers",
            WARNING,
            f"{DIFFERS} == 1",
            words(
                "settings",
                "{{ $labels.setting }}{{ with $labels.device }} of {{ . }}{{ end }} is set otherwise than on most of its peers. "
                "Compare, then set it alike.",
                "One host that is set up otherwise slows down or breaks jobs that span several, and is seldom meant.",
            ),
            wait=timing.lasting,
        ),
        writer.alert(
            "HwsondeSettingChanged",
            INFO,
            f"time() - hwsonde_setting_last_change_timestamp_seconds < {_SECONDS}",
            words(
                "settings",
                "a setting of the area {{ $labels.area }} was changed {{ $value | humanizeDuration }} ago. Nothing to do if it was meant.",
                "What changes just before trouble is the first suspect. The settings board shows the old and the new value.",
            ),
        ),
    ]
