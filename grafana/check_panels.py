"""Asks a running Prometheus every query of a dashboard and says how many series each panel gets.

``python grafana/check_panels.py --prometheus http://127.0.0.1:9090`` ends with status 1 if a panel that must have data has none. A panel whose
text for "no value" says why it may be empty (no open episode, a virtual machine) is let off, unless that excuse is refused.
Standard library only, so that it runs where the dashboards are used.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BOARD = Path(__file__).resolve().parent / "dashboards" / "host.json"
_BUILT_IN = {"__rate_interval": "{interval}", "__interval": "{interval}", "__range": "15m"}
_LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))")

Ask = Callable[[str], list[Any]]


class CheckError(Exception):
    """The board cannot be read or Prometheus does not answer; its text is one line."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a panel's queries gave.

    ``series`` is the number of all its queries together, ``silent`` names the queries that gave none, and ``excuse`` says why the
    panel may be empty (None: it must not be).
    """

    title: str
    series: int
    silent: tuple[str, ...]
    excuse: str | None

    def line(self) -> str:
        """Give the line to print."""
        if self.series == 0:
            return f"   0  {self.title}  EMPTY" + (f" ({self.excuse})" if self.excuse else "")
        return f"{self.series:4d}  {self.title}" + (f"  (nothing from {', '.join(self.silent)})" if self.silent else "")


def panels(board: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every panel with queries, those within collapsed rows included."""
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panels({"panels": panel.get("panels") or []})
        else:
            yield panel


def substitute(expr: str, values: Mapping[str, str], interval: str = "5s") -> str:
    """Give ``expr`` with Grafana's variables replaced, as Grafana does it.

    Raises
    ------
    KeyError
        If a variable is not known.
    """

    def one(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return _BUILT_IN[name].format(interval=interval) if name in _BUILT_IN else values[name]

    return _VARIABLE.sub(one, expr)


def check(board: Mapping[str, Any], values: Mapping[str, str], ask: Ask, interval: str = "5s") -> list[Result]:
    """Ask every query of every panel."""
    results = []
    for panel in panels(board):
        counts = {
            target["refId"]: len(ask(substitute(target["expr"], values, interval))) for target in panel["targets"]
        }
        silent = tuple(name for name, count in counts.items() if count == 0)
        excuse = panel["fieldConfig"]["defaults"].get("noValue")
        results.append(Result(panel["title"], sum(counts.values()), silent, excuse))
    return results


def asker(base: str, timeout: float = 10) -> Ask:
    """Give a function that asks the Prometheus at ``base`` an instant query."""

    def ask(expr: str) -> list[Any]:
        body = urllib.parse.urlencode({"query": expr}).encode()
        try:
            with urllib.request.urlopen(f"{base.rstrip('/')}/api/v1/query", body, timeout=timeout) as answer:  # noqa: S310 - the user's own address
                result: list[Any] = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise CheckError(f"{base} refuses {expr}: {_reason(error)}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckError(f"{base} does not answer as Prometheus does: {error}") from error
        return result

    return ask


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"status {error.code}"


def chosen(board: Mapping[str, Any], values: Mapping[str, str], ask: Ask) -> dict[str, str]:
    """Give ``values`` and one of every further variable of the board: all, where it may be all, else the first that there is, else nothing."""
    found = dict(values)
    for variable in board["templating"]["list"] if "templating" in board else []:
        query = _LABEL_VALUES.fullmatch(str(variable.get("query", "")))
        if variable["type"] != "query" or query is None or variable["name"] in found:
            continue
        if variable.get("includeAll"):
            found[variable["name"]] = variable.get("allValue") or ".*"
        else:
            metrics = [series["metric"] for series in ask(substitute(query[1], found))]
            found[variable["name"]] = min((metric.get(query[2], "") for metric in metrics), default="")
    return found


def host_values(ask: Ask, cluster: str | None, node: str | None) -> dict[str, str]:
    """Values of the variables: those given, or those of the first host that Prometheus knows.

    Raises
    ------
    CheckError
        If it knows no such host.
    """
    found = [series["metric"] for series in ask("hwsonde_exporter_build_info")]
    wanted = sorted(
        (labels.get("cluster", ""), labels.get("node", ""))
        for labels in found
        if cluster in {None, labels.get("cluster", "")} and node in {None, labels.get("node", "")}
    )
    if not wanted:
        raise CheckError("Prometheus has no exporter of hwsonde, or none with this cluster and node")
    return dict(zip(("cluster", "node"), wanted[0], strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line a panel; status 1 if one is empty that must not be, 2 if nothing can be checked."""
    parser = argparse.ArgumentParser(
        prog="check_panels.py", description="Check that every panel of a dashboard has data."
    )
    parser.add_argument("--prometheus", required=True, metavar="URL", help="address of Prometheus")
    parser.add_argument("--board", type=Path, default=BOARD, help="the dashboard's JSON (default: the host board)")
    parser.add_argument("--cluster", help="value of the cluster variable (default: that of the first host)")
    parser.add_argument("--node", help="value of the node variable (default: the first host)")
    parser.add_argument(
        "--interval", default="5s", help="what stands for $__rate_interval: at least twice the scrape interval"
    )
    parser.add_argument(
        "--refuse",
        action="append",
        default=[],
        metavar="EXCUSE",
        help='an excuse that does not count, such as "no score yet"',
    )
    parser.add_argument("--strict", action="store_true", help="refuse every excuse")
    given = parser.parse_args(arguments)
    ask = asker(given.prometheus)
    try:
        board = json.loads(given.board.read_text(encoding="utf-8"))
        values = chosen(board, host_values(ask, given.cluster, given.node), ask)
        results = check(board, values, ask, given.interval)
    except (OSError, ValueError, KeyError, TypeError, CheckError) as error:
        print(f"check_panels: {error}", file=sys.stderr)
        return 2
    empty = [
        result for result in results if result.series == 0 and (given.strict or result.excuse in {None, *given.refuse})
    ]
    for result in results:
        print(result.line())
    print(f"{len(results)} panels, {len(empty)} empty that must not be")
    return 1 if empty else 0


if __name__ == "__main__":
    raise SystemExit(main())
