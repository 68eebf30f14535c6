"""The few ways in which this project draws a panel, so that all boards look alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
THRESHOLD_COLOUR = "#d55e00"
GOOD_COLOUR = "#009e73"
BAND_COLOUR = "#56b4e9"

# The range of a rate whose counter is read every few seconds only. A panel that asks it has steps of half a minute at least, so that the range holds
# readings enough at one scrape a second, and all that happened when it is zoomed out. (The braces are the mark; Grafana takes both ways of writing.)
SLOW_RANGE = "${__rate_interval}"
_SLOW_STEP = "30s"

# What a table's cell leads to: the board of the row's host, at the time that is shown here.
TO_HOST = '/d/hwsonde-host?var-cluster=$cluster&var-node=${__data.fields["Host"]}&${__url_time_range}'

# Pixels of columns whose words are short; Grafana gives each of the others what is left, and 150 at least.
WIDTHS = {
    "Adapter": 80, "Address": 120, "Age": 110, "Ago": 110, "Class": 90, "Coverage": 100, "Device": 130, "Driver": 110, "GPU": 70,
    "Host": 120, "Hosts": 80, "Link": 95, "Network device": 125, "Part": 110, "Port": 50, "Reaches": 100, "Score": 80, "Setting": 250,
    "Severity": 100, "Share": 80, "Up": 60, "VBIOS": 130, "XID": 70,
}  # fmt: skip

Panel: TypeAlias = timeseries.Panel | stat.Panel | table.Panel


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression and how its series are called in the legend."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """What every panel says of itself.

    Attributes
    ----------
    title, text
        Heading, and what it shows and how to read it.
    unit
        Grafana's name of the unit.
    quiet
        Why the panel may rightly show nothing on a healthy host or a virtual machine; None: it must always have data.
    width
        Of 24 columns.
    height
        In rows of the grid.
    """

    title: str
    text: str
    unit: str = "short"
    quiet: str | None = None
    width: int = 12
    height: int = 8


def targets(queries: Sequence[Query], *, instant: bool = False) -> list[prometheus.Dataquery]:
    """Give the queries as Grafana's, named A, B, C, ..."""
    made = []
    for letter, query in zip("ABCDEFGHIJ", queries, strict=False):
        target = prometheus.Dataquery().ref_id(letter).datasource(SOURCE).expr(query.expr).legend_format(query.legend)
        made.append(target.instant() if instant else target.range())
    return made


def _steps(*steps: tuple[float | None, str]) -> dashboards.ThresholdsConfig:
    made = [dashboard.Threshold(value=value, color=colour) for value, colour in steps]
    return dashboards.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(made)


def graph(
    about: About, *queries: Query, limit: float | None = None, stacked: bool = False, top: float | None = None
) -> timeseries.Panel:
    """Lines over time; ``limit`` draws a dashed line at a threshold, ``top`` is what the axis shows at least."""
    # Light areas of several lines make one dark area.
    alone = len(queries) == 1 and "{{" not in queries[0].legend
    legend = (
        common_builders.VizLegendOptions()
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
    )
    tooltip = (
        common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
    )
    panel = (
        timeseries.Panel()
        .title(about.title)
        .description(about.text)
        .unit(about.unit)
        .span(about.width)
        .height(about.height)
        .datasource(SOURCE)
        .line_width(1)
        .fill_opacity(60 if stacked else 8 if alone else 0)
        .show_points(common.VisibilityMode.NEVER)
        .legend(legend.show_legend(show_legend=True))
        .tooltip(tooltip)
        .axis_soft_min(0)
        .targets(list(targets(queries)))
    )
    if any(SLOW_RANGE in query.expr for query in queries):
        panel = panel.interval(_SLOW_STEP)
    if top is not None:
        panel = panel.axis_soft_max(top)
    if stacked:
        panel = panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if limit is not None:
        style = common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        panel = panel.thresholds(_steps((None, "transparent"), (limit, THRESHOLD_COLOUR))).thresholds_style(style)
    return panel.no_value(about.quiet) if about.quiet is not None else panel


def band(about: About, mean: Query, lower: Query, upper: Query, extremes: Sequence[Query]) -> timeseries.Panel:
    """A mean with the band of one deviation around it, and thin lines for the extremes."""
    panel = graph(about, lower, upper, mean, *extremes)
    hidden = {"legend": True, "tooltip": False, "viz": False}
    edges: dict[str, object] = {
        "custom.lineWidth": 0,
        "color": {"mode": "fixed", "fixedColor": BAND_COLOUR},
        "custom.hideFrom": hidden,
    }
    changes: list[tuple[str, dict[str, object]]] = [
        (lower.legend, {**edges, "custom.fillOpacity": 0}),
        (upper.legend, {**edges, "custom.fillOpacity": 25, "custom.fillBelowTo": lower.legend}),
        (
            mean.legend,
            {"color": {"mode": "fixed", "fixedColor": BAND_COLOUR}, "custom.lineWidth": 2, "custom.fillOpacity": 0},
        ),
    ]
    dotted: dict[str, object] = {"custom.fillOpacity": 0, "custom.lineStyle": {"fill": "dot", "dash": [1, 4]}}
    for name, properties in (*changes, *((extreme.legend, dotted) for extreme in extremes)):
        panel = override(panel, name, properties)
    return panel


def override(panel: timeseries.Panel, name: str, properties: dict[str, object]) -> timeseries.Panel:
    """Change how the series of that name is drawn."""
    return panel.override_by_name(
        name, [dashboard.DynamicConfigValue(id_val=key, value=value) for key, value in properties.items()]
    )


def colours(panel: timeseries.Panel, fixed: dict[str, str]) -> timeseries.Panel:
    """Give the series of these names these colours, on every board the same."""
    for name, colour in fixed.items():
        panel = override(panel, name, {"color": {"mode": "fixed", "fixedColor": colour}})
    return panel


def tile(
    about: About,
    query: Query,
    *,
    good: float | None = None,
    bad: float | None = None,
    words: dict[str, str] | None = None,
) -> stat.Panel:
    """One number; green from ``good`` upwards, or red from ``bad`` upwards, or words in place of values."""
    panel = (
        stat.Panel()
        .title(about.title)
        .description(about.text)
        .unit(about.unit)
        .span(about.width)
        .height(about.height)
        .datasource(SOURCE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .color_mode(common.BigValueColorMode.VALUE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .targets(list(targets([query], instant=True)))
    )
    if good is not None:
        panel = panel.thresholds(_steps((None, THRESHOLD_COLOUR), (good, GOOD_COLOUR)))
    elif bad is not None:
        panel = panel.thresholds(_steps((None, GOOD_COLOUR), (bad, THRESHOLD_COLOUR)))
    else:
        panel = panel.thresholds(_steps((None, "text")))
    if words:
        results = {value: dashboard.ValueMappingResult(text=word) for value, word in words.items()}
        panel = panel.mappings([dashboard.ValueMap(options=results)])
    return panel.no_value(about.quiet) if about.quiet is not None else panel


@dataclass(frozen=True, slots=True)
class Columns:
    """What a table shows.

    Attributes
    ----------
    titles
        The labels (and ``Value``) to show, in order, with their headings.
    links
        Addresses that the cells of a heading lead to.
    words
        What stands for a value.
    """

    titles: dict[str, str]
    links: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def changes(self, unit: str) -> dict[str, dict[str, object]]:
        """How the cells of each heading are drawn, where it is not Grafana's way."""
        found: dict[str, dict[str, object]] = {}
        headings = list(self.titles.values())
        known = [heading for heading in headings if heading in WIDTHS]
        # What is left of the panel's width is for the longest words.
        rest = max(known, key=lambda heading: WIDTHS[heading]) if len(known) == len(headings) else None
        for heading in known:
            if heading != rest:
                found.setdefault(heading, {})["custom.width"] = WIDTHS[heading]
        for label, heading in self.titles.items():
            if label != "Value":
                # A label that a row does not have is no reason to say there that the whole table is empty.
                found.setdefault(heading, {})["noValue"] = " "
        for heading, url in self.links.items():
            found.setdefault(heading, {})["links"] = [{"title": "Open", "url": url}]
        if "Value" in self.titles:
            # Not for the whole table: Grafana would write it behind labels that look like numbers, too.
            of_value = found.setdefault(self.titles["Value"], {})
            of_value["unit"] = unit
            if self.words:
                options = {value: {"text": word} for value, word in self.words.items()}
                of_value["mappings"] = [{"type": "value", "options": options}]
        return found


def listing(about: About, query: Query, columns: dict[str, str] | Columns) -> table.Panel:
    """A table of what is true now."""
    shown = columns if isinstance(columns, Columns) else Columns(columns)
    options = {
        "indexByName": {name: index for index, name in enumerate(shown.titles)},
        "renameByName": shown.titles,
        "excludeByName": {name: True for name in ("Time", "Value") if name not in shown.titles},
    }
    (target,) = targets([query], instant=True)
    panel = (
        table.Panel()
        .title(about.title)
        .description(about.text)
        .unit("string")
        .span(about.width)
        .height(about.height)
        .datasource(SOURCE)
        .no_value(about.quiet or "nothing")
        .targets([target.format(PromQueryFormat.TABLE)])
        .with_transformation(dashboard.DataTransformerConfig(id_val="organize", options=options))
    )
    for heading, properties in shown.changes(about.unit).items():
        changes = [dashboard.DynamicConfigValue(id_val=key, value=value) for key, value in properties.items()]
        panel = panel.override_by_name(heading, changes)
    return panel
