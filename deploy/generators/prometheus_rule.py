"""The rules as an object of the Prometheus operator.

``python -m deploy.generators.prometheus_rule --profile fleet --detector-url https://hwsonde.example.org --runbooks-url
https://wiki.example.org/hwsonde`` prints one with a site's own links.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from alert_rules.generate import to_yaml
from alert_rules.rules import groups
from alert_rules.timing import PROFILES, Timing
from alert_rules.writing import Links

_LABELS = {"app.kubernetes.io/name": "hwsonde", "app.kubernetes.io/part-of": "hwsonde"}


def prometheus_rule(timing: Timing, links: Links) -> str:
    """Text of the object with all rules of a profile."""
    document = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "hwsonde", "namespace": "hwsonde", "labels": _LABELS},
        "spec": {"groups": groups(timing, links)},
    }
    return to_yaml(document).replace(
        "python -m alert_rules.generate: change that", "python -m deploy.generate: change the rules"
    )


def files() -> dict[str, str]:
    """Name below ``deploy/kubernetes``, and text, of each file."""
    return {
        f"components/rules-{timing.name}/prometheus-rule.yaml": prometheus_rule(timing, Links())
        for timing in PROFILES.values()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the object; status 2 and one line when an address is wrong."""
    links = Links()
    parser = argparse.ArgumentParser(prog="python -m deploy.generators.prometheus_rule", description=__doc__)
    parser.add_argument("--profile", choices=sorted(PROFILES), required=True)
    parser.add_argument("--detector-url", default=links.detector, help="the detector's page, as operators reach it")
    parser.add_argument("--runbooks-url", default=links.runbooks, help="where the pages of docs/runbooks are found")
    given = parser.parse_args(arguments)
    try:
        sys.stdout.write(prometheus_rule(PROFILES[given.profile], Links(given.detector_url, given.runbooks_url)))
    except ValueError as error:
        sys.stderr.write(f"prometheus_rule: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
