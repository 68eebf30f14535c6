"""Alerts about hwsonde itself, beyond life and death: exporter, data, detector, and the dead man's switch. No input, no output."""

from __future__ import annotations

from alert_rules.timing import Timing
from alert_rules.wording import HOST, words
from alert_rules.writing import INFO, WARNING, Rule, Writer, largest

COVERAGE = "entity:hwsonde_data_fault_coverage_ratio:max"
WATCHDOG = "HwsondeWatchdog"
_DETECTOR = "the detector at {{ $labels.instance }}"


def exporter_rules(timing: Timing, writer: Writer) -> list[Rule]:
    """What the exporter sends, and what it leaves out."""
    scrapes = "hwsonde_exporter_scrapes"
    return [
        largest(COVERAGE, "hwsonde_data_fault_coverage_ratio"),
        writer.alert(
            "HwsondeDataCoverageLow",
            WARNING,
            f"{COVERAGE} < 0.9",
            words(
                "data",
                "only {{ $value | humanizePercentage }} of what this host usually sends is there. Open its page for what is missing.",
                "The score judges what is left. Parts that send nothing are watched by nobody.",
            ),
            wait=timing.lasting,
        ),
        writer.alert(
            "HwsondeExporterReloadFailed",
            WARNING,
            "hwsonde_exporter_config_last_reload_successful == 0",
            words(
                "data",
                "the exporter refused its new configuration and goes on with the old one. Read its log for the wrong line.",
                "What was changed in the configuration is not in force. A restart would fail.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeExporterIncomplete",
            WARNING,
            f"rate({scrapes}_incomplete_total[5m]) > 0.1 * rate({scrapes}_total[5m])",
            words(
                "data",
                "more than one scrape in ten is answered without a collector that was too slow. Read the exporter's landing page for which.",
                "Metrics of that collector have gaps. Something that it reads answers slowly.",
            ),
            wait=timing.lasting,
        ),
        writer.alert(
            "HwsondeExporterSeriesDropped",
            WARNING,
            "increase(hwsonde_exporter_dropped_series_total[15m]) > 0",
            words(
                "data",
                "collector {{ $labels.collector }} leaves series out ({{ $labels.reason }}). Raise its limit, or tell it what to ignore.",
                "The host has more parts than the exporter may publish, so some of them are not watched.",
            ),
            wait=timing.lasting,
        ),
        writer.alert(
            "HwsondeExporterTextfileFailing",
            WARNING,
            "hwsonde_exporter_textfile_error == 1",
            words(
                "data",
                "file {{ $labels.file }} of the text file directory is left out ({{ $labels.reason }}). Mend what writes it.",
                "Metrics that somebody wrote for this host are not published.",
            ),
            wait=timing.lasting,
        ),
    ]


def detector_rules(timing: Timing, writer: Writer) -> list[Rule]:
    """How the detector does its work."""
    name = "hwsonde_detector"
    return [
        writer.alert(
            "HwsondeDetectorLagging",
            WARNING,
            f"{name}_lag_seconds > {timing.lag}",
            {
                "summary": f"{HOST}: {_DETECTOR} has no sample newer than {{{{ $value | humanizeDuration }}}}. "
                "Look at its source and at the clocks of both.",
                "description": "Scores come late, and so do pages. Its reads are slow, it cannot keep up, or the source lags behind.",
            },
            wait=timing.reads,
        ),
        writer.alert(
            "HwsondeDetectorOverloaded",
            WARNING,
            f"rate({name}_late_ticks_skipped_total[5m]) > 0.1 * rate({name}_ticks_total[5m])",
            {
                "summary": f"{HOST}: {_DETECTOR} skips more than one turn in ten. Give it a processor more, or fewer hosts.",
                "description": "A turn is skipped when the one before is still at work, so windows are judged late or never.",
            },
            wait=timing.reads,
        ),
        writer.alert(
            "HwsondeDetectorStepErrors",
            WARNING,
            f"increase({name}_step_errors_total[15m]) > 0",
            {
                "summary": f"{HOST}: a step of {_DETECTOR} failed. Read its log and report the trace.",
                "description": "A defect of the detector: the samples of that step were lost and no window was judged from them.",
            },
        ),
        writer.alert(
            "HwsondeDetectorReloadFailed",
            WARNING,
            f"{name}_config_last_reload_successful == 0",
            {
                "summary": f"{HOST}: {_DETECTOR} refused its new configuration and goes on with the old one. Read its log for the wrong line.",
                "description": "What was changed in the configuration is not in force. A restart would fail.",
            },
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeDetectorStateNotWritten",
            WARNING,
            f"increase({name}_state_save_failures_total[15m]) > 0",
            {
                "summary": f"{HOST}: {_DETECTOR} cannot write what it has learned. Look at the space and the owner of its state directory.",
                "description": "It judges as before. After a restart it would begin with the last state that was written, or learn anew.",
            },
        ),
        writer.alert(
            WATCHDOG,
            INFO,
            "vector(1)",
            {
                "summary": "Rules are evaluated and alerts are sent. This alert always fires; act when it does not arrive.",
                "description": "A dead man's switch: what receives it raises the alarm when it stays away.",
            },
        ),
    ]
