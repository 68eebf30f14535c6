"""Cases of the alerts about hwsonde itself, beyond life and death."""

from __future__ import annotations

from tests.rules.table.row import DETECTOR, HOST, JUDGED, Row, grown, jumped, series, steady, turned

SCRAPES = "hwsonde_exporter_scrapes"
DROPPED = {"collector": "network", "reason": "limit"}
FILE = {"file": "raid.prom", "reason": "too_large"}
OWN = "hwsonde_detector"
AT = "a/d1: the detector at d1:9881"

ROWS = (
    Row(
        "HwsondeDataCoverageLow",
        {series("hwsonde_data_fault_coverage_ratio", JUDGED): turned(1, 0.75)},
        {series("hwsonde_data_fault_coverage_ratio", JUDGED): turned(1, 0.95)},
        {"cluster": "a", "node": "n1"},
        "a/n1: only 75% of what this host usually sends is there. Open its page for what is missing.",
    ),
    Row(
        "HwsondeExporterReloadFailed",
        {series("hwsonde_exporter_config_last_reload_successful"): turned(1, 0)},
        {series("hwsonde_exporter_config_last_reload_successful"): steady(1)},
        HOST,
        "a/n1: the exporter refused its new configuration and goes on with the old one. Read its log for the wrong line.",
    ),
    Row(
        "HwsondeExporterIncomplete",
        {series(f"{SCRAPES}_total"): grown(60), series(f"{SCRAPES}_incomplete_total"): grown(12)},
        {series(f"{SCRAPES}_total"): grown(60), series(f"{SCRAPES}_incomplete_total"): grown(3)},
        HOST,
        "a/n1: more than one scrape in ten is answered without a collector that was too slow. "
        "Read the exporter's landing page for which.",
    ),
    Row(
        "HwsondeExporterSeriesDropped",
        {series("hwsonde_exporter_dropped_series_total", **DROPPED): grown(6)},
        {series("hwsonde_exporter_dropped_series_total", **DROPPED): steady(6)},
        {**HOST, **DROPPED},
        "a/n1: collector network leaves series out (limit). Raise its limit, or tell it what to ignore.",
    ),
    Row(
        "HwsondeExporterTextfileFailing",
        {series("hwsonde_exporter_textfile_error", **FILE): turned(0, 1)},
        {series("hwsonde_exporter_textfile_error", file="raid.prom", reason=""): steady(0)},
        {**HOST, **FILE},
        "a/n1: file raid.prom of the text file directory is left out (too_large). Mend what writes it.",
    ),
    Row(
        "HwsondeDetectorLagging",
        {series(f"{OWN}_lag_seconds", DETECTOR): turned(1, 180)},
        {series(f"{OWN}_lag_seconds", DETECTOR): "1+0x40 180x3 2+0x200"},
        DETECTOR,
        f"{AT} has no sample newer than 3m 0s. Look at its source and at the clocks of both.",
    ),
    Row(
        "HwsondeDetectorOverloaded",
        {series(f"{OWN}_ticks_total", DETECTOR): grown(60), series(f"{OWN}_late_ticks_skipped_total", DETECTOR): grown(12)},
        {series(f"{OWN}_ticks_total", DETECTOR): grown(60), series(f"{OWN}_late_ticks_skipped_total", DETECTOR): grown(3)},
        DETECTOR,
        f"{AT} skips more than one turn in ten. Give it a processor more, or fewer hosts.",
    ),
    Row(
        "HwsondeDetectorStepErrors",
        {series(f"{OWN}_step_errors_total", DETECTOR): jumped(1)},
        {series(f"{OWN}_step_errors_total", DETECTOR): steady(1)},
        DETECTOR,
        "a/d1: a step of the detector at d1:9881 failed. Read its log and report the trace.",
    ),
    Row(
        "HwsondeDetectorReloadFailed",
        {series(f"{OWN}_config_last_reload_successful", DETECTOR): turned(1, 0)},
        {series(f"{OWN}_config_last_reload_successful", DETECTOR): steady(1)},
        DETECTOR,
        f"{AT} refused its new configuration and goes on with the old one. Read its log for the wrong line.",
    ),
    Row(
        "HwsondeDetectorStateNotWritten",
        {series(f"{OWN}_state_save_failures_total", DETECTOR): jumped(1)},
        {series(f"{OWN}_state_save_failures_total", DETECTOR): steady(2)},
        DETECTOR,
        f"{AT} cannot write what it has learned. Look at the space and the owner of its state directory.",
    ),
    Row(
        "HwsondeWatchdog",
        {},
        # It never stays silent while rules are evaluated; what watches it does so when nothing is.
        {},
        {},
        "Rules are evaluated and alerts are sent. This alert always fires; act when it does not arrive.",
    ),
)  # fmt: skip
