"""Configuration of the four programs, from the options alone. Pure: `files` gives names and texts, `write` puts them on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from alert_rules.generate import alertmanager_file, rule_file
from alert_rules.receivers import PagerDuty, Receivers
from alert_rules.timing import FAST
from alert_rules.writing import Links
from quickstart.layout import LOOPBACK, ROOT, Options, url

EXPORTER_JOB = "hwsonde-exporter"
DETECTOR_JOB = "hwsonde-detector"
HEADER = "# Made by ./run for this start: changes are lost at the next.\n"
# The stand-in takes any key of PagerDuty's form; this one cannot be mistaken for a real one.
STAND_IN_KEY = "0" * 32


def prometheus(options: Options) -> dict[str, Any]:
    """Scrape both programs, evaluate the rules, tell Alertmanager; every target carries the entity labels."""
    interval = f"{options.scrape_ms}ms"

    def job(name: str, port: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401  # whatever Prometheus takes
        target = {
            "targets": [f"{LOOPBACK}:{port}"],
            "labels": {"cluster": options.cluster, "node": options.node},
        }
        return {"job_name": name, **more, "static_configs": [target]}

    return {
        "global": {
            "scrape_interval": interval,
            "scrape_timeout": f"{options.scrape_timeout_ms}ms",
            "evaluation_interval": interval,
        },
        "rule_files": [str(options.config / "rules.yml")],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [f"{LOOPBACK}:{options.ports.alertmanager}"]}]}]
        },
        "scrape_configs": [
            job(EXPORTER_JOB, options.ports.exporter),
            # The scores carry the labels of the hosts they speak of, which must win over the detector's own.
            job(DETECTOR_JOB, options.ports.detector, honor_labels=True),
        ],
    }


def detector(options: Options) -> dict[str, Any]:
    """Read this Prometheus, keep the state under the data directory, serve the page on loopback."""
    return merged(
        {
            "source": {"url": url(options.ports.prometheus), "selector": f'job="{EXPORTER_JOB}"'},
            "state": {"dir": str(options.state)},
            "web": {"listen": f"{LOOPBACK}:{options.ports.detector}"},
            "links": {"prometheus": url(options.ports.prometheus)},
            # On this machine asking costs little, and the demo ends within minutes.
            "alertmanager": {"url": url(options.ports.alertmanager), "every": "2s"},
        },
        options.detector,
    )


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the values of ``over``, mapping by mapping."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[key] = merged(below, value)
        else:
            result[key] = value
    return result


def files(options: Options) -> dict[str, str]:
    """Text of every configuration file by its name in the configuration directory."""
    rules = rule_file(FAST, Links(detector=url(options.ports.detector), runbooks=str(ROOT / "docs" / "runbooks")))
    if options.key_file is None:
        target = PagerDuty(
            url=url(options.ports.events, "/v2/enqueue"), routing_key_file=str(options.config / "stand-in.key")
        )
    else:
        target = PagerDuty(routing_key_file=str(options.key_file))
    made = {
        "prometheus.yml": HEADER + yaml.safe_dump(prometheus(options), sort_keys=False),
        "detector.yml": HEADER + yaml.safe_dump(detector(options), sort_keys=False),
        "rules.yml": rules,
        "alertmanager.yml": alertmanager_file(FAST, Receivers((target,))),
    }
    if options.key_file is None:
        made["stand-in.key"] = STAND_IN_KEY
    return made


def write(options: Options) -> None:
    """Put `files` under the configuration directory; raises OSError."""
    options.config.mkdir(parents=True, exist_ok=True)
    for name, text in files(options).items():
        place_text(options.config / name, text)


def place_text(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader never sees half of it."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
