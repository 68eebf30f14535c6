"""The board of the detectors: whether they read, keep up, learn, and what they have said."""

from __future__ import annotations

from grafana.boards.anomaly import NO_SCORE, SUBSYSTEMS
from grafana.boards.fleet import ALL
from grafana.boards.frame import Board
from grafana.boards.kit import TO_HOST, About, Columns, Panel, Query, colours, graph, listing, tile

OWN = "hwsonde_detector"
NEVER = "it never happened"


def _rate(name: str) -> str:
    return f"rate({OWN}_{name}{{{ALL}}}[$__rate_interval])"


def _mean(name: str) -> str:
    return f"sum by (instance) ({_rate(f'{name}_sum')}) / (sum by (instance) ({_rate(f'{name}_count')}) > 0)"


def _tiles() -> tuple[Panel, ...]:
    return (
        tile(
            About("Detectors", "Detectors of the cluster that answer.", "none", width=3, height=4),
            Query(f'sum(up{{{ALL},job="hwsonde-detector"}})'),
            good=1,
        ),
        tile(
            About("Read", "Whether the last read of every detector succeeded.", "none", width=3, height=4),
            Query(f"min({OWN}_source_up{{{ALL}}})"),
            good=1,
            words={"0": "failing", "1": "yes"},
        ),
        tile(
            About("Lag", "Age of the newest sample that was read.", "s", "no sample yet", width=3, height=4),
            Query(f"max({OWN}_lag_seconds{{{ALL}}})"),
            bad=90,
        ),
        tile(
            About("Hosts", "Hosts that are known at present.", "none", width=3, height=4),
            Query(f"max({OWN}_entities{{{ALL}}})"),
        ),
        tile(
            About("Hosts learned", "Hosts of which enough was learned that their scores count.", "none", NO_SCORE, width=3, height=4),
            Query(f"sum(max by (node) (hwsonde_anomaly_calibrated{{{ALL}}}))"),
        ),
        tile(
            About("Configuration", "Whether the configuration in force is the one that was read last.", "none", width=3, height=4),
            Query(f"min({OWN}_config_last_reload_successful{{{ALL}}})"),
            good=1,
            words={"0": "refused", "1": "in force"},
        ),
        tile(
            About(
                "Page rate",
                "Episodes that opened, in 100 days of watching one host: what the budget became.",
                "none", "nothing was watched yet", width=3, height=4,
            ),
            Query(f"max({OWN}_realised_page_rate{{{ALL}}})"),
        ),
        tile(
            About("Watched", "Time in which scores counted, summed over hosts.", "s", width=3, height=4),
            Query(f"max({OWN}_watched_seconds{{{ALL}}})"),
        ),
    )  # fmt: skip


def _work() -> tuple[Panel, ...]:
    return (
        graph(
            About("Windows", "Windows judged and skipped.", "ops", width=8),
            Query(f"sum({_rate('windows_scored_total')})", "judged"),
            Query(f"sum by (reason) ({_rate('windows_skipped_total')})", "skipped: {{reason}}"),
        ),
        graph(
            About("Reads", "Answers of the source and failed reads by reason.", "ops", width=8),
            Query(f"sum({_rate('reads_total')})", "answers"),
            Query(f"sum by (reason) ({_rate('read_errors_total')})", "failed: {{reason}}"),
        ),
        graph(
            About("Turns", "Turns of the loop, and those that were skipped since the one before was still at work.", "ops", width=8),
            Query(f"sum by (instance) ({_rate('ticks_total')})", "{{instance}}"),
            Query(f"sum by (instance) ({_rate('late_ticks_skipped_total')})", "{{instance}} skipped"),
        ),
        graph(
            About("Time of a read", "Mean time until the source had answered.", "s", width=8),
            Query(_mean("read_duration_seconds"), "{{instance}}"),
        ),
        graph(
            About("Time of a step", "Mean time from an answer to its scores.", "s", width=8),
            Query(_mean("step_duration_seconds"), "{{instance}}"),
        ),
        graph(
            About("Values left out", "Values after a counter's reset, out of range, or of a later time.", "ops", width=8),
            Query(f"sum by (reason) ({_rate('values_dropped_total')})", "{{reason}}"),
            top=1,
        ),
        graph(
            About("Failures", "Steps that failed and states that could not be written, within an hour.", "none", width=12),
            Query(f"sum(increase({OWN}_step_errors_total{{{ALL}}}[1h]))", "steps"),
            Query(f"sum(increase({OWN}_state_save_failures_total{{{ALL}}}[1h]))", "state not written"),
            top=1,
        ),
        graph(
            About("State written", "Times that models and episodes were written within an hour.", "none", width=12),
            Query(f"sum by (instance) (increase({OWN}_state_saves_total{{{ALL}}}[1h]))", "{{instance}}"),
            top=1,
        ),
    )  # fmt: skip


def _said() -> tuple[Panel, ...]:
    episodes = graph(
        About("Episodes by part", "Episodes that opened within an hour, by the part that was named first.", "none", NEVER, width=8),
        Query(f"sum by (subsystem) (increase({OWN}_episodes_total{{{ALL}}}[1h]))", "{{subsystem}}"),
        stacked=True,
        top=1,
    )  # fmt: skip
    return (
        colours(episodes, SUBSYSTEMS),
        graph(
            About("Faults of data", "Faults that opened within an hour, by kind.", "none", NEVER, width=8),
            Query(f"sum by (kind) (increase({OWN}_data_faults_total{{{ALL}}}[1h]))", "{{kind}}"),
            top=1,
        ),
        graph(
            About("Windows excused", "Windows above 1 that a change of workloads explained, within an hour.", "none", NEVER, width=8),
            Query(f"sum by (reason) (increase({OWN}_windows_excused_total{{{ALL}}}[1h]))", "{{reason}}"),
            top=1,
        ),
        graph(
            About("Models that came into force", "New regimes, former ones that returned, lasting shifts, within an hour.", "none", NEVER, width=8),
            Query(f"sum by (change) (increase({OWN}_regime_changes_total{{{ALL}}}[1h]))", "{{change}}"),
            top=1,
        ),
        listing(
            About("Least coverage", "Hosts of which least of what the model looks at was judged.", "percentunit", NO_SCORE, width=8),
            Query(f"bottomk(20, max by (node) (hwsonde_anomaly_coverage_ratio{{{ALL}}}))"),
            Columns({"node": "Host", "Value": "Coverage"}, {"Host": TO_HOST}),
        ),
        listing(
            About("Oldest scores", "Hosts whose newest window is oldest.", "s", NO_SCORE, width=8),
            Query(f"topk(20, time() - max by (node) (hwsonde_anomaly_window_end_timestamp_seconds{{{ALL}}}))"),
            Columns({"node": "Host", "Value": "Age"}, {"Host": TO_HOST}),
        ),
    )  # fmt: skip


BOARD = Board(
    name="detector-health",
    text="The detectors of a cluster: whether they read, keep up and learn, and what they have said.",
    span="1h",
    rows=(("Now", _tiles()), ("Work", _work()), ("What was said, and of whom", _said())),
)
