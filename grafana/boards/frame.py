"""What all boards have in common: variables, links to each other and to the detector's page, annotations, rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.models import dashboard

from grafana.boards.kit import SOURCE, THRESHOLD_COLOUR, Panel

TAG = "hwsonde"
Row: TypeAlias = tuple[str, tuple[Panel, ...]]
Variable: TypeAlias = dashboards.DatasourceVariable | dashboards.QueryVariable | dashboards.TextBoxVariable


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable whose values Prometheus gives.

    ``query`` is Grafana's ``label_values(...)``; ``many``: several values, or all of them, may be chosen at a time.
    """

    name: str
    label: str
    query: str
    many: bool = False


CLUSTER = Choice("cluster", "Cluster", "label_values(hwsonde_exporter_build_info, cluster)")
NODE = Choice("node", "Host", 'label_values(hwsonde_exporter_build_info{cluster="$cluster"}, node)')


@dataclass(frozen=True, slots=True)
class Board:
    """One board.

    Attributes
    ----------
    name
        Of its file, and of its identity (``hwsonde-NAME``), which addresses and links are made of.
    text
        What it is for, in a sentence.
    rows
        Headings, with the panels below each.
    choices
        Variables beyond the source and the cluster, in order; with `NODE` among them the board is about one host.
    span
        How far back it looks at first.
    """

    name: str
    text: str
    rows: tuple[Row, ...]
    choices: tuple[Choice, ...] = ()
    span: str = "15m"

    @property
    def uid(self) -> str:
        """Identity, which does not change when the title does."""
        return f"hwsonde-{self.name}"

    @property
    def of_host(self) -> bool:
        """Whether it is about one host."""
        return NODE in self.choices


def build(board: Board, detector_url: str) -> dashboards.Dashboard:
    """Give the whole board; ``detector_url`` is where its links to the detector's page lead unless the reader changes it."""
    made = (
        dashboards.Dashboard(f"hwsonde / {board.name.replace('-', ' ')}")
        .uid(board.uid)
        .description(f"{board.text} Generated; changes made here are lost.")
        .tags([TAG, "generated"])
        .refresh("5s")
        .time(f"now-{board.span}", "now")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .annotation(_incidents(board))
        .link(_others())
        .link(_page(board))
    )
    for variable in _variables(board, detector_url):
        made = made.with_variable(variable)
    for title, panels in board.rows:
        made = made.with_row(dashboards.Row(title))
        for panel in panels:
            made = made.with_panel(panel)
    return made


def _others() -> dashboards.DashboardLink:
    """Every board, at the same time and of the same host."""
    return (
        dashboards.DashboardLink("Other boards")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(as_dropdown=True)
        .include_vars(include_vars=True)
        .keep_time(keep_time=True)
    )


def _page(board: Board) -> dashboards.DashboardLink:
    """The detector's page, which is told the time that is shown here."""
    host = "host=${cluster:percentencode}%2F${node:percentencode}&" if board.of_host else ""
    return (
        dashboards.DashboardLink("This host on the detector's page" if board.of_host else "The detector's page")
        .type(dashboard.DashboardLinkType.LINK)
        .icon("external link")
        .tooltip("Episodes, the channels that moved first, and what was expected of them")
        .url(f"${{detector:raw}}/#{host}from=${{__from}}&to=${{__to}}")
        .target_blank(target_blank=True)
    )


def _variables(board: Board, detector_url: str) -> tuple[Variable, ...]:
    return (
        dashboards.DatasourceVariable("datasource").label("Prometheus").type("prometheus"),
        *(_query(choice) for choice in (CLUSTER, *board.choices)),
        dashboards.TextBoxVariable("detector").label("Detector's page").default_value(detector_url),
    )


def _query(choice: Choice) -> dashboards.QueryVariable:
    made = (
        dashboards.QueryVariable(choice.name)
        .label(choice.label)
        .query(choice.query)
        .datasource(SOURCE)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    )
    if choice.many:
        made = made.multi(multi=True).include_all(include_all=True).all_value(".*")
        made = made.current(dashboard.VariableOption(text="All", value="$__all"))
    return made


def _incidents(board: Board) -> dashboards.AnnotationQuery:
    where, by = ('cluster="$cluster",node="$node"', "subsystem")
    if not board.of_host:
        where, by = ('cluster="$cluster"', "node, subsystem")
    return (
        dashboards.AnnotationQuery()
        .name("Open episodes")
        .datasource(SOURCE)
        .enable(enable=True)
        .icon_color(THRESHOLD_COLOUR)
        .expr(f"max by ({by}) (hwsonde_incident_active{{{where}}})")
    )
