"""Cases of the alerts about a host as a whole: its score and its data."""

from __future__ import annotations

from tests.rules.table.row import DETECTOR, JUDGED, LONG, STEP, Row, series, steady

INCIDENT, SHADOW = "hwsonde_incident_active", "hwsonde_shadow_incident_active"
EPISODE = {"subsystem": "cpu", "scope": "host"}
FAULT = "hwsonde_data_fault_score"
END = "hwsonde_anomaly_window_end_timestamp_seconds"
UP = {series("up"): steady(1)}
SUCCESS, AVAILABLE = "hwsonde_exporter_collector_success", "hwsonde_exporter_collector_available"
READS, ERRORS = "hwsonde_detector_reads_total", "hwsonde_detector_read_errors_total"

ROWS = (
    Row(
        "HwsondeHostAnomaly",
        {series(INCIDENT, JUDGED, **EPISODE): steady(1)},
        {series(INCIDENT, JUDGED, **EPISODE): steady(0)},
        also=({series(INCIDENT, JUDGED, **{**EPISODE, "scope": "job"}): steady(1)},),
    ),
    Row("HwsondeDataFault", {series(FAULT, JUDGED, kind="missing"): steady(2)}, {series(FAULT, JUDGED, kind="missing"): steady(0.9)}),
    Row("HwsondeDataFaultWarning", {series(FAULT, JUDGED, kind="stuck"): steady(2)}, {series(FAULT, JUDGED, kind="partial"): steady(2)}),
    Row(
        "HwsondeHostUnscored",
        {series("up"): f"1+0x{2 * LONG}", series("up", node="n2"): f"1+0x{2 * LONG}", series(END, JUDGED, node="n2"): f"0+{STEP}x{2 * LONG}"},
        {series("up"): f"1+0x{2 * LONG}", series(END, JUDGED): f"0+{STEP}x{2 * LONG}"},
        look=9000,
    ),
    Row(
        "HwsondeExporterCollectorFailing",
        {series(SUCCESS, collector="rdma"): steady(0), series(AVAILABLE, collector="rdma", reason=""): steady(1)},
        {series(SUCCESS, collector="rdma"): steady(0), series(AVAILABLE, collector="rdma", reason="no_hardware"): steady(0)},
    ),
    Row("HwsondeDetectorStalled", {**UP, series(END, JUDGED): "0+30x20 600+0x300"}, {**UP, series(END, JUDGED): f"0+{STEP}x{LONG}"}),
    Row(
        "HwsondeDetectorReadErrors",
        {series(READS, DETECTOR): f"0+1x{LONG}", series(ERRORS, DETECTOR, reason="unreachable"): f"0+1x{LONG}"},
        {series(READS, DETECTOR): f"0+20x{LONG}", series(ERRORS, DETECTOR, reason="unreachable"): f"0+1x{LONG}"},
    ),
)  # fmt: skip
