"""The recording and alert rules of one timing profile, as plain values. No input, no output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypedDict
from urllib.parse import urlsplit

from alert_rules import data, gpu, wording
from alert_rules.timing import Timing, duration

EXPORTER = 'job="hwsonde-exporter"'
DETECTOR = 'job="hwsonde-detector"'
CRITICAL, WARNING = "critical", "warning"

# What tells the two detectors of a high-availability pair apart; their answers to one question are one answer.
_PAIR = "job, instance, replica, pod"

# What is published of the channels of an open episode.
OF_CHANNELS = ("channel_share", "channel_value", "channel_info", "expected_lower", "expected_upper")

Rule: TypeAlias = dict[str, str | dict[str, str]]


class Group(TypedDict):
    """One group of rules, evaluated in order, so that alerts see what was recorded in the same round."""

    name: str
    interval: str
    rules: list[Rule]


@dataclass(frozen=True, slots=True)
class Links:
    """Where a page's links lead.

    Attributes
    ----------
    detector
        The detector's own page, as operators reach it.
    runbooks
        Folder or address of the runbook pages, one ``<AlertName>.md`` each.
    """

    detector: str = "http://localhost:9881"
    runbooks: str = "docs/runbooks"

    def __post_init__(self) -> None:
        url = urlsplit(self.detector)
        if url.scheme not in {"http", "https"} or not url.netloc:
            raise ValueError(
                f"detector's page {self.detector!r}: give an http or https address, such as http://host:9881"
            )
        for address in (self.detector, self.runbooks):
            if not address.strip() or "{{" in address or not address.isprintable():
                raise ValueError(f"link {address!r}: give a plain address, in one line and without template marks")


@dataclass(frozen=True, slots=True)
class Writer:
    """Makes alert rules with the labels and links that every one of them has."""

    links: Links

    def alert(self, name: str, severity: str, expr: str, annotations: dict[str, str], **timing: int) -> Rule:
        """Give an alert rule; ``timing`` is ``wait`` (Prometheus's ``for``) and ``keep_firing``, both in seconds."""
        rule: Rule = {"alert": name, "expr": expr}
        if "wait" in timing:
            rule["for"] = duration(timing["wait"])
        if "keep_firing" in timing:
            rule["keep_firing_for"] = duration(timing["keep_firing"])
        rule["labels"] = {"severity": severity, "team": "hardware"}
        runbook = f"{self.links.runbooks.rstrip('/')}/{name}.md"
        rule["annotations"] = {**annotations, "dashboard_url": self.page(), "runbook_url": runbook}
        return rule

    def page(self) -> str:
        """Template of the address of the detector's page, opened at the host of the alert where it has one."""
        return f"{self.links.detector.rstrip('/')}/{wording.HOST_QUERY}"


def recording_rules(timing: Timing) -> list[Rule]:
    """What the detectors of a pair say, as one answer a host."""
    fresh = f"hwsonde_incident_active and time() - timestamp(hwsonde_incident_active) <= {timing.fresh}"
    return [
        _largest("entity:hwsonde_anomaly_score:max", "hwsonde_anomaly_score"),
        _largest("entity_subsystem:hwsonde_anomaly_subsystem_score:max", "hwsonde_anomaly_subsystem_score"),
        *(_largest(f"entity_channel:hwsonde_anomaly_{name}:max", f"hwsonde_anomaly_{name}") for name in OF_CHANNELS),
        _largest(
            "entity:hwsonde_anomaly_window_end_timestamp_seconds:max", "hwsonde_anomaly_window_end_timestamp_seconds"
        ),
        _largest("entity_subsystem:hwsonde_incident_active:max", fresh),
        data.recording_rule(timing),
    ]


def _largest(name: str, expr: str) -> Rule:
    return {"record": name, "expr": f"max without ({_PAIR}) ({expr})"}


def _down(job: str, vanished: str, told_by: str, gathered: str = "{}") -> str:
    """Down: scraped without success; or no longer scraped, within the time for which that is missed; or never scraped at all.

    ``told_by`` are the labels that tell one that is missed from the others; ``gathered`` makes one answer of all that share them.
    """
    up = f"up{{{job}}}"
    now, past, never = map(
        gathered.format, (up, f"max_over_time({up}[{vanished}])", f"absent_over_time({up}[{vanished}])")
    )
    return f"{now} == 0\nor\n{past} unless on ({told_by}) {up}\nor\n{never}\n"


def host_alerts(timing: Timing, writer: Writer) -> list[Rule]:
    """Alerts about a host."""
    vanished = duration(timing.vanished)
    up, newest = f"up{{{EXPORTER}}}", "entity:hwsonde_anomaly_window_end_timestamp_seconds:max"
    return [
        writer.alert(
            "HwsondeHostAnomaly",
            CRITICAL,
            "entity_subsystem:hwsonde_incident_active:max == 1",
            wording.HOST_ANOMALY,
            keep_firing=timing.keep_firing,
        ),
        writer.alert(
            "HwsondeExporterDown",
            CRITICAL,
            _down(EXPORTER, vanished, "cluster, node"),
            wording.EXPORTER_DOWN,
            wait=timing.down,
        ),
        writer.alert(
            "HwsondeExporterCollectorFailing",
            WARNING,
            "hwsonde_exporter_collector_success == 0\n"
            "unless on (cluster, node, collector) hwsonde_exporter_collector_available == 0\n",
            wording.COLLECTOR_FAILING,
            wait=timing.collector,
        ),
        writer.alert(
            "HwsondeHostUnscored",
            WARNING,
            f"{up} == 1\nunless on (cluster, node) {newest}\n",
            wording.HOST_UNSCORED,
            wait=timing.unscored,
        ),
    ]


def detector_alerts(timing: Timing, writer: Writer) -> list[Rule]:
    """Alerts about the detector itself."""
    vanished, over = duration(timing.vanished), duration(timing.reads_over)
    up, newest = f"up{{{DETECTOR}}}", "entity:hwsonde_anomaly_window_end_timestamp_seconds:max"
    errors, reads = f"rate(hwsonde_detector_read_errors_total[{over}])", f"rate(hwsonde_detector_reads_total[{over}])"
    return [
        # As long as one detector of a pair answers, hosts are judged: only the last one's death is worth a page.
        writer.alert(
            "HwsondeDetectorDown",
            CRITICAL,
            _down(DETECTOR, vanished, "cluster", "max by (cluster) ({})"),
            wording.DETECTOR_DOWN,
            wait=timing.down,
        ),
        writer.alert(
            "HwsondeDetectorReplicaDown",
            WARNING,
            f"(\n  {up} == 0\n  or\n  max_over_time({up}[{vanished}]) unless on (cluster, node) {up}\n)\n"
            f"and on (cluster) {up} == 1\n",
            wording.REPLICA_DOWN,
            wait=timing.down,
        ),
        writer.alert(
            "HwsondeDetectorStalled",
            CRITICAL,
            f"time() - {newest} > {timing.scores_age}\nand on (cluster, node) up{{{EXPORTER}}} == 1\n",
            wording.DETECTOR_STALLED,
            wait=timing.stalled,
        ),
        writer.alert(
            "HwsondeDetectorReadErrors",
            WARNING,
            f"sum without (reason) ({errors}) > 0.1 * {reads}",
            wording.READ_ERRORS,
            wait=timing.reads,
        ),
    ]


def groups(timing: Timing, links: Links) -> list[Group]:
    """Every group of rules of a profile."""
    writer, interval = Writer(links), duration(timing.evaluation)
    return [
        # One group: an alert must see what was recorded in the same round, or a page comes a round later.
        {
            "name": "hwsonde",
            "interval": interval,
            "rules": [
                *recording_rules(timing),
                *host_alerts(timing, writer),
                *gpu.gpu_alerts(timing, writer),
                *data.data_alerts(timing, writer),
                *detector_alerts(timing, writer),
            ],
        }
    ]
