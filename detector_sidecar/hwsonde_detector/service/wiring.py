"""Configuration -> the parts that the loop uses, and what of the old ones stays when it changes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from hwsonde_detector.clock import Clock
from hwsonde_detector.config import Config, load_profiles
from hwsonde_detector.config.incidents import parse_matchers
from hwsonde_detector.connect import alertmanager_options, automation_actions, open_recorder, open_source
from hwsonde_detector.engines.base import Engine
from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.errors import StateError
from hwsonde_detector.incidents.alertmanager import Follower
from hwsonde_detector.incidents.automation import FILE_NAME, Automation
from hwsonde_detector.incidents.entry import Entry
from hwsonde_detector.incidents.marking import Marker
from hwsonde_detector.incidents.pages import summary
from hwsonde_detector.incidents.policy import Policy
from hwsonde_detector.plan import Plan, shaping
from hwsonde_detector.service.parts import Parts, Recorder
from hwsonde_detector.sources.alertmanager import Alertmanager
from hwsonde_detector.types import Entity
from hwsonde_detector.writers.exposition import check_entity_labels

log = logging.getLogger("hwsonde_detector.service")


@dataclass(frozen=True, slots=True)
class Change:
    """Parts of a new configuration and its plan.

    ``keep`` says that what was learned still serves; with ``renewed`` models are made of it anew, in another engine, but for hosts that are
    ``lost``: too little of what is known of them fits.
    """

    parts: Parts
    plan: Plan
    keep: bool
    renewed: bool = False
    lost: frozenset[Entity] = frozenset()


def build(config: Config) -> Parts:
    """Everything anew.

    Raises
    ------
    ConfigError, ArchiveError
        One line a problem.
    """
    plan = make_plan(config)
    parts = Parts(open_source(config, plan.profiles), LocalEngine(plan))
    _simple(parts, config)
    parts.recorder = open_recorder(config)
    return parts


def rebuild(config: Config, old: Parts, before: Config) -> Change:
    """Parts of a changed configuration, with the old source, engine and recorder where nothing changed for them.

    The engine stays while the settings that shape models are the same: rules of episodes and of data faults do not, everything else does. Else
    another one takes over what the old one knows, as after a restart.

    Raises
    ------
    ConfigError, ArchiveError
        One line a problem; the old parts are untouched, but for a recording that could not be opened again with another ``max_size``.
    """
    plan = make_plan(config)
    keep = shape(plan) == shape(old.engine.plan)
    asked = config.peers.enabled, config.peers.settings_every
    same_source = config.source == before.source and plan.profiles == old.engine.plan.profiles
    same_source &= asked == (before.peers.enabled, before.peers.settings_every)
    source = old.source if same_source else open_source(config, plan.profiles)
    parts = Parts(source, old.engine if keep else LocalEngine(plan))
    _simple(parts, config)
    # Last, because the same file can only be opened again once it is closed.
    parts.recorder = _recorder(config, old, before)
    renewed = not keep and take_over(parts.engine, old.engine)
    lost = old.engine.entities() - parts.engine.entities() if renewed else frozenset()
    return Change(parts, plan, keep or renewed, renewed, lost)


def take_over(engine: Engine, old: Engine) -> bool:
    """Let a new engine go on with what an old one knows; False where that is nothing, or hosts have other names now, or too little of it fits."""
    renamed = engine.plan.settings.entity_labels != old.plan.settings.entity_labels
    if renamed or old.last_row_ms() is None:
        return False
    document, arrays = old.snapshot()
    try:
        # As it would come back from the disk.
        engine.restore(json.loads(json.dumps(document)), arrays)
    except StateError as error:
        log.info("reload: %s", error)
        return False
    return engine.last_row_ms() is not None


def open_follower(config: Config, clock: Clock) -> Follower | None:
    """Who asks the Alertmanager that a configuration names, None where it names none; asks nothing yet."""
    section = config.alertmanager
    if section.url is None:
        return None
    marker = parse_matchers(section.normal) if section.normal.strip() else ()
    asked = Alertmanager(alertmanager_options(config))
    return Follower(asked, clock, section.every / 1000, marker, config.entity_labels)


def open_automation(config: Config, clock: Clock, marker: Marker, count: Callable[[str], None]) -> Automation | None:
    """Who acts on incidents as a configuration says, None where it says nothing; does nothing yet."""
    actions, section = automation_actions(config), config.automation
    if not actions:
        return None
    policy = Policy(
        section.dry_run,
        section.per_hour,
        section.hosts,
        section.hosts_in,
        frozenset(section.scopes),
        frozenset(section.subsystems),
        section.least_peak,
    )
    base = config.links.detector

    def tell(entry: Entry) -> dict[str, Any]:
        told = summary(entry)
        if base is None:
            return told
        page = f"{base.rstrip('/')}/incidents/{entry.id}"
        return {**told, "page": page, "mark": f"{page}/mark?{urlencode({'token': marker.link(entry.id)})}"}

    audit = config.state.dir / FILE_NAME if config.state.dir is not None else None
    return Automation(actions, policy, clock, audit, tell, count)


def _recorder(config: Config, old: Parts, before: Config) -> Recorder | None:
    if config.archive == before.archive:
        return old.recorder
    if old.recorder is not None and config.archive.record == before.archive.record:
        old.recorder.close()
    return open_recorder(config)


def make_plan(config: Config) -> Plan:
    """Settings and profiles.

    Raises
    ------
    ConfigError
        A profile is wrong, or an entity label is one that the detector's own series carry.
    """
    check_entity_labels(config.entity_labels)
    return Plan(config.settings(), load_profiles(config.profiles, config.origin.directory))


def shape(plan: Plan) -> Plan:
    """The part of a plan that models depend on."""
    return shaping(plan)


def _simple(parts: Parts, config: Config) -> None:
    parts.address = without_credentials(config.source.url)
    parts.fixed_ms = None if config.tick == "auto" else config.tick
    parts.longest_ms = config.source.max_range
    parts.history_ms = config.source.history
    parts.shadow = config.mode == "shadow"
    parts.step = config.window.step
    parts.keep_ms = config.incidents.keep_for
    links = {
        "prometheus": config.links.prometheus or parts.address,
        "grafana": config.links.grafana,
        "alertmanager": config.links.alertmanager or config.alertmanager.url,
    }
    parts.links = tuple((name, url) for name, url in links.items() if url)


def without_credentials(url: str) -> str:
    """The address without user and password, as it may be shown."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
