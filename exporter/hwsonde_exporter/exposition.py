"""Samples to text, by a template that is made once for each shape.

The shape of a collector's answer (which series, in which order) hardly ever changes from one scrape to the next; only the
values do. So the text around the values is made once, kept as one %-template, and filled for each scrape. Everything that
costs (escaping, grouping by family, finding duplicates) happens when the shape changes and never otherwise.

Formats: the text format 0.0.4 and OpenMetrics 1.0.0, as specified at
https://prometheus.io/docs/instrumenting/exposition_formats/ and https://prometheus.io/docs/specs/om/open_metrics_spec/.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite, isnan
from operator import itemgetter
from typing import cast

from hwsonde_exporter.metric import Foreign, Kind, Metric, Sample
from hwsonde_exporter.privacy import SHOW, Privacy
from hwsonde_exporter.selection import EVERYTHING, Selection

Labels = tuple[str, ...]
Values = tuple[float, ...]

_END_OF_OPENMETRICS = b"# EOF\n"
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = {
    # The text format leaves quotes in a help text as they are, OpenMetrics escapes them like those of a label value.
    "text": str.maketrans({"\\": r"\\", "\n": r"\n"}),
    "openmetrics": _LABEL_ESCAPES,
}


class Format(Enum):
    """The exposition formats that are spoken; the value is the content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class _Token(str):
    """A value that is printed as it stands; lets NaN and infinities pass through ``%r``."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Give the text itself, without quotes."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Shape:
    """The identity of a sequence of samples, with the templates that print it.

    Attributes
    ----------
    metrics, labels, suffixes
        n entries each, in the order in which the samples came; labels as they were given.
    shown
        Label values that are published: those that were given, or less where they are personal.
    size
        Number of series that are printed: n less those that are dropped.
    dropped
        Number of samples that are not printed, by reason: ``duplicate`` (the series came before; the first one counts),
        ``undeclared`` (a metric, suffix or number of labels that is not the collector's), ``limit``, ``incomplete`` (parts
        of a histogram whose other parts are missing: half of it would be read as a whole).
    """

    metrics: tuple[Metric, ...]
    labels: tuple[Labels, ...]
    suffixes: tuple[str, ...]
    shown: Sequence[Labels]
    size: int
    dropped: Mapping[str, int]
    _order: tuple[int, ...] = field(repr=False)
    _select: Callable[[Values], Values] | None = field(repr=False)
    _templates: dict[Format, str] = field(repr=False)

    @property
    def places(self) -> tuple[int, ...]:
        """Which of the n samples are printed, in the order of printing."""
        return self._order

    def matches(self, metrics: tuple[Metric, ...], labels: tuple[Labels, ...], suffixes: tuple[str, ...]) -> bool:
        """Whether samples of these identities have this shape."""
        return metrics == self.metrics and labels == self.labels and suffixes == self.suffixes

    def fill(self, values: Values, form: Format) -> bytes:
        """Text of all series with their n ``values``."""
        chosen = values if self._select is None else self._select(values)
        return (self._templates[form] % _printable(chosen)).encode()


@dataclass(slots=True)
class Block:
    """Samples of one collector: a shape and the n values that fill it. Its text is made at most once a format."""

    shape: Shape
    values: Values
    _texts: dict[Format, bytes] = field(default_factory=dict, repr=False)

    def text(self, form: Format) -> bytes:
        """Exposition text, families contiguous, each with its HELP and TYPE."""
        text = self._texts.get(form)
        if text is None:
            text = self._texts[form] = self.shape.fill(self.values, form)
        return text

    @property
    def samples(self) -> list[Sample]:
        """The samples that are printed, in that order."""
        shape = self.shape
        return [
            Sample(shape.metrics[place], shape.shown[place], self.values[place], shape.suffixes[place])
            for place in shape.places
        ]


def compile_shape(
    metrics: Sequence[Metric],
    labels: Sequence[Labels],
    suffixes: Sequence[str],
    *,
    declared: Collection[Metric] | None = None,
    limit: int | None = None,
    selection: Selection = EVERYTHING,
    privacy: Privacy = SHOW,
) -> Shape:
    """Make the shape of samples with these identities (n each).

    Parameters
    ----------
    metrics, labels, suffixes
        Identities of the samples, in the order in which they come.
    declared
        The metrics of ours that may occur; None allows any. Those of others (`Foreign`) always may, since they cannot have a
        name like ours.
    limit
        Greatest number of series that may be printed; None for no limit.
    selection
        Which metrics are published; the others are passed over and not counted as dropped.
    privacy
        What becomes of personal labels. Every label that is published comes through here.
    """
    shown = privacy.labels(metrics, labels)
    hidden = {metric for metric in set(metrics) if selection.hides(metric)} if selection != EVERYTHING else set()
    order, dropped = _order(metrics, shown, suffixes, declared, limit, hidden)
    select: Callable[[Values], Values] | None
    if order == list(range(len(metrics))):
        select = None
    elif len(order) > 1:
        select = cast("Callable[[Values], Values]", itemgetter(*order))
    else:
        # itemgetter gives no tuple for a single place.
        def select(values: Values) -> Values:
            return tuple(values[place] for place in order)

    chosen = [(metrics[place], shown[place], suffixes[place]) for place in order]
    return Shape(
        tuple(metrics),
        tuple(labels),
        tuple(suffixes),
        shown,
        len(order),
        dropped,
        tuple(order),
        select,
        {form: _template(chosen, form) for form in Format},
    )


def block_of(
    samples: Sequence[Sample],
    known: Shape | None = None,
    selection: Selection = EVERYTHING,
    privacy: Privacy = SHOW,
) -> Block:
    """Block of samples that are known to be sound; ``known``, made by the same rules, is used again where it fits."""
    if not samples:
        return Block(known if known is not None and not known.metrics else compile_shape((), (), ()), ())
    metrics, labels, values, suffixes = zip(*samples, strict=True)
    if known is None or not known.matches(metrics, labels, suffixes):
        known = compile_shape(metrics, labels, suffixes, selection=selection, privacy=privacy)
    return Block(known, values)


def render(blocks: Iterable[Block], form: Format = Format.TEXT) -> bytes:
    """Whole exposition. No two blocks may hold the same family: names are unique over all collectors."""
    pieces = [block.text(form) for block in blocks]
    if form is Format.OPENMETRICS:
        pieces.append(_END_OF_OPENMETRICS)
    return b"".join(pieces)


def negotiate(accept: str | None) -> Format:
    """Format for an Accept header, by its q values.

    OpenMetrics is given where it is asked for by name in a version that we speak (1.x, 0.0.1 or none) and is not
    liked less than plain text; parameters that we do not know (``escaping``, ``charset``) are passed over, since names
    here need no escaping. Whatever cannot be satisfied gets plain text, which every scraper reads.
    """
    best = {Format.TEXT: 0.0, Format.OPENMETRICS: 0.0}
    for item in (accept or "").lower().split(","):
        media, *parameters = (part.strip() for part in item.split(";"))
        pairs = dict(part.split("=", 1) for part in parameters if "=" in part)
        weight = _weight(pairs.get("q", "1"))
        version = pairs.get("version", "").strip('"')
        if media == "application/openmetrics-text":
            if version in {"", "1.0.0", "0.0.1"} or version.startswith("1."):
                best[Format.OPENMETRICS] = max(best[Format.OPENMETRICS], weight)
        elif media in {"text/plain", "text/*", "*/*"}:
            best[Format.TEXT] = max(best[Format.TEXT], weight)
    wanted = best[Format.OPENMETRICS]
    return Format.OPENMETRICS if wanted > 0 and wanted >= best[Format.TEXT] else Format.TEXT


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0.0 <= weight <= 1.0 else 0.0


def _order(
    metrics: Sequence[Metric],
    labels: Sequence[Labels],
    suffixes: Sequence[str],
    declared: Collection[Metric] | None,
    limit: int | None,
    hidden: Collection[Metric],
) -> tuple[list[int], dict[str, int]]:
    """Places of the samples to print, families together in order of first appearance, and what is dropped."""
    families: dict[str, list[int]] = {}
    seen: set[tuple[str, str, Labels, Labels]] = set()
    dropped: Counter[str] = Counter()
    for place, (metric, values, suffix) in enumerate(zip(metrics, labels, suffixes, strict=True)):
        if hidden and metric in hidden:
            continue
        key = (metric.name, suffix, metric.labels, values)
        foreign = isinstance(metric, Foreign)
        if not _sound(metric, values, suffix) or (declared is not None and not foreign and metric not in declared):
            dropped["undeclared"] += 1
        elif key in seen:
            dropped["duplicate"] += 1
        elif limit is not None and len(seen) >= limit:
            dropped["limit"] += 1
        else:
            seen.add(key)
            families.setdefault(metric.name, []).append(place)
    order: list[int] = []
    for places in families.values():
        metric = metrics[places[0]]
        if metric.kind in {Kind.SUMMARY, Kind.HISTOGRAM} and not isinstance(metric, Foreign):
            chosen = _points(metric, places, labels, suffixes)
            if len(chosen) < len(places):
                dropped["incomplete"] += len(places) - len(chosen)
            places = chosen  # noqa: PLW2901  (what is left of it)
        order += places
    return order, dict(dropped)


def _points(metric: Metric, places: Sequence[int], labels: Sequence[Labels], suffixes: Sequence[str]) -> list[int]:
    """Places of a summary's or histogram's samples, those of one set of labels together; incomplete histograms left out.

    OpenMetrics forbids the points of one metric to be interleaved with those of another, and wants buckets in ascending order.
    """
    groups: dict[Labels, list[int]] = {}
    for place in places:
        groups.setdefault(labels[place][: len(metric.labels)], []).append(place)
    if metric.kind is Kind.SUMMARY:
        return [place for group in groups.values() for place in group]
    bounds = metric.bounds
    ranks = {("_bucket", bound): rank for rank, bound in enumerate(bounds)}
    ranks |= {("_sum", ""): len(bounds), ("_count", ""): len(bounds) + 1}

    def rank(place: int) -> int:
        return ranks[suffixes[place], labels[place][-1] if suffixes[place] == "_bucket" else ""]

    return [place for group in groups.values() if len(group) == len(ranks) for place in sorted(group, key=rank)]


def _sound(metric: Metric, values: Labels, suffix: str) -> bool:
    return (
        suffix in metric.suffixes
        and len(values) == len(metric.label_names(suffix))
        and all(isinstance(value, str) for value in values)
        and (suffix != "_bucket" or isinstance(metric, Foreign) or values[-1] in metric.bounds)
    )


def _template(chosen: Iterable[tuple[Metric, Labels, str]], form: Format) -> str:
    pieces: list[str] = []
    previous = ""
    for metric, values, suffix in chosen:
        if metric.name != previous:
            previous = metric.name
            pieces.append(_header(metric, form).replace("%", "%%"))
        pieces.append(_series(metric, values, suffix).replace("%", "%%") + " %r\n")
    return "".join(pieces)


def _header(metric: Metric, form: Format) -> str:
    if form is Format.TEXT:
        text = metric.help.translate(_HELP_ESCAPES["text"])
        return f"# HELP {metric.name} {text}\n# TYPE {metric.name} {metric.kind}\n"
    kind = metric.kind.value
    # OpenMetrics calls a type that is not known so, and knows no counter without its ending: others' may lack it.
    if metric.kind is Kind.UNTYPED or (metric.kind is Kind.COUNTER and not metric.name.endswith("_total")):
        kind = "unknown"
    family = metric.name.removesuffix("_total") if kind == Kind.COUNTER else metric.name
    lines = f"# HELP {family} {metric.help.translate(_HELP_ESCAPES['openmetrics'])}\n# TYPE {family} {kind}\n"
    # A unit may only be declared where the name ends in it.
    if metric.unit and family.endswith(f"_{metric.unit}"):
        lines += f"# UNIT {family} {metric.unit}\n"
    return lines


def _series(metric: Metric, values: Labels, suffix: str) -> str:
    names = metric.label_names(suffix)
    if not names:
        return metric.name + suffix
    # A label read from the kernel may hold bytes that are not UTF-8; they must not cost the whole scrape.
    texts = (value.encode("utf-8", "backslashreplace").decode().translate(_LABEL_ESCAPES) for value in values)
    pairs = ",".join(f'{name}="{text}"' for name, text in zip(names, texts, strict=True))
    return f"{metric.name}{suffix}{{{pairs}}}"


def _printable(values: Values) -> tuple[object, ...]:
    """The values, with NaN and infinities spelled as the formats want them."""
    try:
        if isfinite(sum(values)):
            return values
    except OverflowError:  # an integer beyond the range of a float
        pass
    return tuple(map(_spell, values))


def _spell(value: float) -> object:
    try:
        value_as_float = float(value)
    except OverflowError:
        value_as_float = float("inf") if value > 0 else float("-inf")
    if isfinite(value_as_float):
        return value
    if isnan(value_as_float):
        return _Token("NaN")
    return _Token("+Inf" if value_as_float > 0 else "-Inf")
