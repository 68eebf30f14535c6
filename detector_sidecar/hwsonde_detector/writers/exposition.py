"""The series that the detector publishes, made from what the loop published last. Pure: who asks, and how often, changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hwsonde_detector import __version__
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.published import Published, PublishedHost
from hwsonde_detector.telemetry import COUNTED, Family, Kind, Sample
from hwsonde_detector.types import Channel, Contribution, Device, Labels, Score
from hwsonde_detector.writers import data_faults
from hwsonde_detector.writers.data_faults import fault_samples
from hwsonde_detector.writers.text import render

_DAY_MS = 86_400_000
TOP_CHANNELS = 10
TOP_DEVICES = 10
SETTLING_REASONS = ("start", "stop", "phase")
TOP_SETTINGS = 20


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name, Kind.GAUGE, text, labels)


SCORE = _gauge(
    "hwsonde_anomaly_score", "Anomaly score, the maximum over the trailing hold; 1 is the threshold.", "detector"
)
SUBSYSTEM_SCORE = _gauge(
    "hwsonde_anomaly_subsystem_score", "Part of the fused score by subsystem; the parts sum to it.", "subsystem"
)
DEVICE_SCORE = _gauge(
    "hwsonde_anomaly_device_score",
    "Part of the fused score by device, the largest ones of an open episode.",
    "class",
    "device",
)
CHANNEL_SHARE = _gauge(
    "hwsonde_anomaly_channel_share",
    "Share of a channel in the fused score (0 to 1), the largest of an open episode.",
    "channel",
    "subsystem",
)
CHANNEL_VALUE = _gauge(
    "hwsonde_anomaly_channel_value",
    "Newest value of a channel, in its own unit, of the largest of an open episode.",
    "channel",
)
CHANNEL_INFO = _gauge(
    "hwsonde_anomaly_channel_info",
    "Constant 1 that says what a channel of an open episode is: its title, unit, device and where that sits.",
    "channel",
    "subsystem",
    "title",
    "unit",
    "class",
    "device",
    "address",
)
EXPECTED_LOWER = _gauge(
    "hwsonde_anomaly_expected_lower", "Lower bound of what was expected of a channel, in its own unit.", "channel"
)
EXPECTED_UPPER = _gauge(
    "hwsonde_anomaly_expected_upper", "Upper bound of what was expected of a channel, in its own unit.", "channel"
)
CALIBRATED = _gauge(
    "hwsonde_anomaly_calibrated", "1 once enough was learned for scores to count; nothing pages before."
)
THRESHOLD = _gauge("hwsonde_anomaly_threshold", "What calibrated values are divided by to give the score.")
COVERAGE = _gauge(
    "hwsonde_anomaly_coverage_ratio",
    "Share of the channels that the model looks at which the newest window knew; below 0.5 it is not judged.",
)
ANOMALOUS = _gauge(
    "hwsonde_anomalous_channels_ratio", "Share of the judged channels that are outside of what was expected."
)
WINDOW_END = _gauge(
    "hwsonde_anomaly_window_end_timestamp_seconds", "End of the newest judged window, seconds since the epoch."
)
LEARNING_ROWS = _gauge("hwsonde_anomaly_learning_rows", "Rows learned so far.")
LEARNING_NEEDED = _gauge("hwsonde_anomaly_learning_rows_needed", "Rows needed before scores count.")
LEARNING_FROZEN = _gauge("hwsonde_anomaly_learning_frozen", "1 while nothing is learned because the score is above 1.")
SETTLING = _gauge(
    "hwsonde_anomaly_settling",
    "1 while a change of workloads is being learned, by reason; only what no workload explains opens an episode meanwhile.",
    "reason",
)
REGIMES = _gauge("hwsonde_anomaly_regimes", "Former regimes of the host that are remembered besides the one in force.")
INCIDENT = _gauge("hwsonde_incident_active", "1 for each open episode.", "subsystem", "scope")
SHADOW_INCIDENT = _gauge(
    "hwsonde_shadow_incident_active",
    "1 for each open episode that would page if the mode were live.",
    "subsystem",
    "scope",
)
SETTING_DIFFERS = _gauge(
    "hwsonde_setting_differs",
    "1 for each setting in which a host, or one of its GPUs, differs from most of its peers; bounded.",
    "setting",
    "device",
)

BUILD = _gauge("hwsonde_detector_build_info", "Version of the detector; the value is 1.", "version")
START = _gauge("hwsonde_detector_start_time_seconds", "When the detector started, seconds since the epoch.")
LAG = _gauge("hwsonde_detector_lag_seconds", "Age of the newest sample that was read.")
SOURCE_UP = _gauge("hwsonde_detector_source_up", "1 if the last read succeeded.")
ENTITIES = _gauge("hwsonde_detector_entities", "Hosts that are known at present.")
CHANNELS = _gauge("hwsonde_detector_channels", "Channels known of a host.")
CHANNELS_JUDGED = _gauge("hwsonde_detector_channels_judged", "Channels that the model in force looks at.")
MODEL_AGE = _gauge("hwsonde_detector_model_age_seconds", "Age of the newest row in the model in force.")
WATCHED = _gauge(
    "hwsonde_detector_watched_seconds",
    "Time in which the scores of the present hosts counted, summed over them; it outlasts restarts.",
)
PAGE_RATE = _gauge(
    "hwsonde_detector_realised_page_rate",
    "Episodes that opened on the present hosts in 100 node-days of watched time: what the budget became.",
)
USEFUL = _gauge(
    "hwsonde_detector_realised_useful_ratio",
    "Share of the marked ones among the kept incidents that people called useful (0 to 1); absent while none is marked.",
)
RELOAD_OK = _gauge(
    "hwsonde_detector_config_last_reload_successful", "1 if the last reading of the configuration succeeded."
)
RELOAD_TIME = _gauge(
    "hwsonde_detector_config_last_reload_success_timestamp_seconds",
    "When the configuration in force was read, seconds since the epoch.",
)

FAMILIES: tuple[Family, ...] = (
    SCORE, SUBSYSTEM_SCORE, DEVICE_SCORE, CHANNEL_SHARE, CHANNEL_VALUE, CHANNEL_INFO, EXPECTED_LOWER, EXPECTED_UPPER, CALIBRATED, THRESHOLD, COVERAGE,
    ANOMALOUS, WINDOW_END, LEARNING_ROWS, LEARNING_NEEDED, LEARNING_FROZEN, SETTLING, REGIMES, INCIDENT, SHADOW_INCIDENT,
    SETTING_DIFFERS, BUILD, START, LAG, SOURCE_UP, ENTITIES, CHANNELS,
    CHANNELS_JUDGED, MODEL_AGE, WATCHED, PAGE_RATE, USEFUL, RELOAD_OK, RELOAD_TIME, *data_faults.FAMILIES, *COUNTED,
)  # fmt: skip


def check_entity_labels(names: Iterable[str]) -> None:
    """Refuse entity labels that would collide with labels of our own series.

    Raises
    ------
    ConfigError
        Naming the label.
    """
    taken = {label for family in FAMILIES for label in family.labels}
    for name in names:
        if name in taken:
            raise ConfigError(
                f"entity_labels: {name!r} is a label that the detector's own series carry; use another label for hosts"
            )


def exposition(published: Published, monotonic: float, now_ms: int) -> bytes:
    """Text of /metrics at this moment."""
    return render(FAMILIES, samples(published, monotonic, now_ms))


def samples(published: Published, monotonic: float, now_ms: int) -> Iterator[Sample]:
    """Every sample, in no order that matters."""
    for host in published.hosts:
        yield from _host_samples(host, now_ms)
        yield from fault_samples(published, host, monotonic)
        if published.speaks_of_now(host, monotonic, now_ms):
            yield from _present_samples(host, monotonic, shadow=published.shadow)
    yield Sample(BUILD, (("version", __version__),), 1)
    yield Sample(START, (), published.started_ms / 1000)
    yield Sample(SOURCE_UP, (), float(published.source.answered and not published.source.failing))
    yield Sample(ENTITIES, (), len(published.hosts))
    watched_ms = sum(host.learning.watched_ms for host in published.hosts)
    yield Sample(WATCHED, (), watched_ms / 1000)
    if watched_ms > 0:
        pages = sum(host.learning.pages for host in published.hosts)
        yield Sample(PAGE_RATE, (), pages * 100.0 * _DAY_MS / watched_ms)
    useful, noise = published.marks
    if useful + noise:
        yield Sample(USEFUL, (), useful / (useful + noise))
    yield Sample(RELOAD_OK, (), float(published.reload_ok))
    yield Sample(RELOAD_TIME, (), published.reloaded_ms / 1000)
    if published.last_sample_ms is not None:
        yield Sample(LAG, (), max(0, now_ms - published.last_sample_ms) / 1000)
    yield from published.own


def _host_samples(host: PublishedHost, now_ms: int) -> Iterator[Sample]:
    entity, learning = host.entity.labels, host.learning
    yield Sample(LEARNING_ROWS, entity, learning.rows)
    yield Sample(LEARNING_NEEDED, entity, learning.rows_needed)
    yield Sample(LEARNING_FROZEN, entity, float(learning.frozen))
    for reason in SETTLING_REASONS:
        yield Sample(SETTLING, (*entity, ("reason", reason)), float(learning.settling == reason))
    yield Sample(REGIMES, entity, learning.regimes)
    yield Sample(CHANNELS, entity, learning.channels)
    yield Sample(CHANNELS_JUDGED, entity, learning.channels_judged)
    if learning.fitted_ms is not None:
        yield Sample(MODEL_AGE, entity, max(0, now_ms - learning.fitted_ms) / 1000)
    differing = [finding for finding in host.settings if finding.usual is not None]
    for finding in sorted(differing, key=lambda one: (one.setting, one.device))[:TOP_SETTINGS]:
        yield Sample(SETTING_DIFFERS, (*entity, ("setting", finding.setting), ("device", finding.device)), 1)
    newest = host.recent[-1].score if host.recent else None
    yield Sample(CALIBRATED, entity, float(newest is not None and newest.calibrated))
    if newest is not None:
        yield Sample(WINDOW_END, entity, newest.end_ms / 1000)


def _present_samples(host: PublishedHost, monotonic: float, *, shadow: bool) -> Iterator[Sample]:
    entity = host.entity.labels
    for episode in host.open_episodes:
        labels = (*entity, ("subsystem", str(episode.subsystem)), ("scope", str(episode.scope)))
        yield Sample(SHADOW_INCIDENT if shadow else INCIDENT, labels, 1)
    if (coverage := host.coverage) is not None:
        yield Sample(COVERAGE, entity, coverage)
    if held := host.held(monotonic):
        yield from _score_samples(entity, held)
        if host.open_episodes:
            yield from _episode_samples(entity, _worst(held), host.open_episodes[0].top)


def _score_samples(entity: Labels, held: Sequence[Score]) -> Iterator[Sample]:
    worst, newest = _worst(held), held[-1]
    yield Sample(SCORE, (*entity, ("detector", "fused")), worst.fused)
    for member in dict.fromkeys(name for score in held for name in score.members):
        values = [score.members[member] for score in held if score.members.get(member, -1.0) >= 0.0]
        if values:
            yield Sample(SCORE, (*entity, ("detector", member)), max(values))
    # The parts come from the window that gave the fused score: maxima of parts taken apart would not sum to it.
    for subsystem, part in worst.subsystems.items():
        yield Sample(SUBSYSTEM_SCORE, (*entity, ("subsystem", str(subsystem))), part)
    yield Sample(THRESHOLD, entity, newest.threshold)
    yield Sample(ANOMALOUS, entity, max((score.anomalous_channels for score in held), key=_known))


def _episode_samples(entity: Labels, worst: Score, at_peak: Sequence[Contribution]) -> Iterator[Sample]:
    # While an episode ends nothing deviates any more; what was seen at its peak still explains it.
    top = sorted(worst.top or at_peak, key=lambda part: -part.share)
    for device, share in _devices(worst, top)[:TOP_DEVICES]:
        yield Sample(DEVICE_SCORE, (*entity, ("class", device.kind), ("device", device.name)), share * worst.fused)
    for part in top[:TOP_CHANNELS]:
        channel = ("channel", part.channel.name)
        yield Sample(CHANNEL_SHARE, (*entity, channel, ("subsystem", str(part.channel.subsystem))), part.share)
        yield Sample(CHANNEL_VALUE, (*entity, channel), part.value)
        yield Sample(CHANNEL_INFO, (*entity, *_identity(part.channel)), 1)
        yield Sample(EXPECTED_LOWER, (*entity, channel), part.lower)
        yield Sample(EXPECTED_UPPER, (*entity, channel), part.upper)


def _devices(worst: Score, top: Sequence[Contribution]) -> Sequence[tuple[Device, float]]:
    """Shares of devices, largest first: of all channels, where those are known, else of the top ones."""
    if worst.devices:
        return worst.devices
    shares: dict[Device, float] = {}
    for part in top:
        if part.channel.device is not None:
            shares[part.channel.device] = shares.get(part.channel.device, 0.0) + part.share
    return sorted(shares.items(), key=lambda item: (-item[1], item[0]))


def _identity(channel: Channel) -> Labels:
    device = channel.device
    return (
        ("channel", channel.name),
        ("subsystem", str(channel.subsystem)),
        ("title", channel.title),
        ("unit", channel.unit),
        ("class", device.kind if device is not None else ""),
        ("device", device.name if device is not None else ""),
        ("address", channel.address),
    )


def _known(value: float) -> float:
    """Key for a maximum that NaN never wins."""
    return value if value == value else -1.0  # noqa: PLR0124  NaN differs from itself


def _worst(held: Sequence[Score]) -> Score:
    return max(held, key=lambda score: _known(score.fused))
