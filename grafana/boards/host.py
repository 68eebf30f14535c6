"""The board of one host: how anomalous it is, where, and what the raw numbers of that part say."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.models import dashboard

from grafana.boards import anomaly, hardware, health, moments
from grafana.boards.kit import SOURCE, THRESHOLD_COLOUR, Panel

UID = "hwsonde-host"
ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    ("Anomaly", anomaly.panels()),
    ("CPU", hardware.cpu()),
    ("Memory", hardware.memory()),
    ("Network", hardware.network()),
    ("Storage", hardware.storage()),
    ("Pressure: time that tasks lost by waiting for a resource", hardware.pressure()),
    ("Between the scrapes: ten observations a second, as mean, deviation and extremes", moments.panels()),
    ("What the detector has to judge by", health.detector()),
    ("The exporter itself", health.exporter()),
)


def board(detector_url: str) -> dashboards.Dashboard:
    """Give the whole board; ``detector_url`` is where its links to the detector's page lead unless the reader changes it."""
    made = (
        dashboards.Dashboard("hwsonde / host")
        .uid(UID)
        .description(
            "One host as hwsonde sees it: score, parts, channels, and the raw numbers below. Generated; changes made here are lost."
        )
        .tags(["hwsonde", "generated"])
        .refresh("5s")
        .time("now-15m", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .annotation(_incidents())
        .link(
            dashboards.DashboardLink("This host on the detector's page")
            .type(dashboard.DashboardLinkType.LINK)
            .icon("external link")
            .tooltip("Episodes, the channels that moved first, and what was expected of them")
            .url("${detector:raw}/#host=${cluster:percentencode}%2F${node:percentencode}")
            .target_blank(target_blank=True)
        )
    )
    for variable in _variables(detector_url):
        made = made.with_variable(variable)
    for title, panels in ROWS:
        made = made.with_row(dashboards.Row(title))
        for panel in panels:
            made = made.with_panel(panel)
    return made


def _variables(
    detector_url: str,
) -> tuple[dashboards.DatasourceVariable | dashboards.QueryVariable | dashboards.TextBoxVariable, ...]:
    refresh, sort = dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED, dashboard.VariableSort.ALPHABETICAL_ASC
    cluster = (
        dashboards.QueryVariable("cluster").label("Cluster").query("label_values(hwsonde_exporter_build_info, cluster)")
    )
    node = (
        dashboards.QueryVariable("node")
        .label("Host")
        .query('label_values(hwsonde_exporter_build_info{cluster="$cluster"}, node)')
    )
    return (
        dashboards.DatasourceVariable("datasource").label("Prometheus").type("prometheus"),
        cluster.datasource(SOURCE).refresh(refresh).sort(sort),
        node.datasource(SOURCE).refresh(refresh).sort(sort),
        dashboards.TextBoxVariable("detector").label("Detector's page").default_value(detector_url),
    )


def _incidents() -> dashboards.AnnotationQuery:
    return (
        dashboards.AnnotationQuery()
        .name("Open episodes")
        .datasource(SOURCE)
        .enable(enable=True)
        .icon_color(THRESHOLD_COLOUR)
        .expr(f"max by (subsystem) (hwsonde_incident_active{{{anomaly.HOST}}})")
    )
