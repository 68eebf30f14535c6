"""The recording and alert rules of one timing profile, as plain values. No input, no output."""

from __future__ import annotations

from alert_rules import board, data, gpu, memory, network, settings, storage, upkeep, wording
from alert_rules.timing import Timing, duration
from alert_rules.writing import CRITICAL, WARNING, Group, Links, Rule, Writer, largest

EXPORTER = 'job="hwsonde-exporter"'
DETECTOR = 'job="hwsonde-detector"'
_OTHER_JOBS = 'job!~"hwsonde-exporter|hwsonde-detector"'
# Scopes of an episode that many hosts have in common.
WIDE = "job|fabric"
_AFTERWARDS = "10m"
# What is published of the channels of an open episode.
OF_CHANNELS = ("channel_share", "channel_value", "channel_info", "expected_lower", "expected_upper")


def recording_rules(timing: Timing) -> list[Rule]:
    """What the detectors of a pair say, as one answer a host."""
    fresh = f"hwsonde_incident_active and time() - timestamp(hwsonde_incident_active) <= {timing.fresh}"
    return [
        largest("entity:hwsonde_anomaly_score:max", "hwsonde_anomaly_score"),
        largest("entity_subsystem:hwsonde_anomaly_subsystem_score:max", "hwsonde_anomaly_subsystem_score"),
        *(largest(f"entity_channel:hwsonde_anomaly_{name}:max", f"hwsonde_anomaly_{name}") for name in OF_CHANNELS),
        largest(
            "entity:hwsonde_anomaly_window_end_timestamp_seconds:max", "hwsonde_anomaly_window_end_timestamp_seconds"
        ),
        largest("entity_subsystem:hwsonde_incident_active:max", fresh),
        data.recording_rule(timing),
    ]


def _down(job: str, vanished: str, told_by: str, gathered: str = "{}") -> str:
    """Down: scraped without success; or no longer scraped, within the time for which that is missed; or never scraped at all.

    ``told_by`` are the labels that tell one that is missed from the others; ``gathered`` makes one answer of all that share them.
    """
    up = f"up{{{job}}}"
    now, past, never = map(
        gathered.format, (up, f"max_over_time({up}[{vanished}])", f"absent_over_time({up}[{vanished}])")
    )
    return f"{now} == 0\nor\n{past} unless on ({told_by}) {up}\nor\n{never}\n"


def _anomaly() -> str:
    """An incident, but not one that an alert with a page of its own, apart from the host's, explains: what it has in common with other hosts counts.

    By the rule and not by Alertmanager, which never resolves the page of what ends while it is silenced. For some minutes after the cause the
    incident is on its way to its end, and so are the minutes in which a Prometheus that was started again does not know the cause yet.
    """
    incident, of_many = "entity_subsystem:hwsonde_incident_active:max", f'scope=~"{WIDE}"'
    causes = "".join(
        f"unless on (cluster, node, subsystem) label_replace(\n"
        f'  last_over_time(ALERTS{{alertname="{cause}",alertstate="firing",node!=""}}[{_AFTERWARDS}]),\n'
        f'  "subsystem", "{subsystem}", "", ""\n)\n'
        for cause, subsystem in (("HwsondeNetworkRdmaDown", "network"), ("HwsondeStorageStuck", "storage"))
    )
    return f'{incident}{{scope!~"{WIDE}"}} == 1\n{causes}or\n{incident}{{{of_many}}} == 1\n'


def host_alerts(timing: Timing, writer: Writer) -> list[Rule]:
    """Alerts about a host."""
    vanished = duration(timing.vanished)
    up, newest = f"up{{{EXPORTER}}}", "entity:hwsonde_anomaly_window_end_timestamp_seconds:max"
    return [
        writer.alert(
            "HwsondeHostAnomaly",
            CRITICAL,
            _anomaly(),
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


def _alive() -> str:
    """Hosts that answer: by hwsonde's exporter where they have one, else by whatever else of theirs is scraped."""
    own, other = f"up{{{EXPORTER}}}", f"up{{{_OTHER_JOBS}}}"
    return f"(\n  {own} == 1\n  or on (cluster, node)\n  ({other} == 1 unless on (cluster, node) {own})\n)"


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
            f"time() - {newest} > {timing.scores_age}\nand on (cluster, node) {_alive()}\n"
            'unless on (cluster) ALERTS{alertname="HwsondeDetectorDown",alertstate="firing"}\n',
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
    writer = Writer(links)
    pace, calm = duration(timing.evaluation), duration(timing.hardware)
    # What reads recorded series is in one group with them: it must see those of the same round, or a page comes a round later.
    core = [
        *recording_rules(timing),
        *host_alerts(timing, writer),
        *data.data_alerts(timing, writer),
        *detector_alerts(timing, writer),
    ]
    made: list[tuple[str, str, list[Rule]]] = [
        ("hwsonde", pace, core),
        ("hwsonde_gpu_events", pace, gpu.fast_rules(timing, writer)),
        ("hwsonde_gpu", calm, gpu.rules(timing, writer)),
        ("hwsonde_network", calm, network.rules(timing, writer)),
        ("hwsonde_storage", calm, storage.rules(timing, writer)),
        ("hwsonde_memory", calm, memory.rules(timing, writer)),
        ("hwsonde_board", calm, board.rules(timing, writer)),
        ("hwsonde_settings", calm, settings.rules(timing, writer)),
        ("hwsonde_exporter", calm, upkeep.exporter_rules(timing, writer)),
        ("hwsonde_detector", calm, upkeep.detector_rules(timing, writer)),
    ]
    return [{"name": name, "interval": interval, "rules": rules} for name, interval, rules in made]
