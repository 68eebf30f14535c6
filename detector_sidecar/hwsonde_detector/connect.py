"""Configuration -> the source and the recorder that it asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from hwsonde_detector.config import Config
from hwsonde_detector.config.identity import Basic, Bearer
from hwsonde_detector.incidents.automation import Action, Command, Webhook
from hwsonde_detector.signals.profiles import Profile
from hwsonde_detector.sources.alertmanager import AlertmanagerOptions
from hwsonde_detector.sources.archive import ArchiveRecorder
from hwsonde_detector.sources.auth import Credentials, EnvSecret, FileSecret, Secret
from hwsonde_detector.sources.options import SourceOptions
from hwsonde_detector.sources.prometheus import PrometheusSource


def open_source(
    config: Config, profiles: Sequence[Profile], environment: Mapping[str, str] = os.environ
) -> PrometheusSource:
    """The source that a configuration describes; connects at the first read.

    Raises
    ------
    ConfigError
        The profiles name no metric, or one that must not be read.
    """
    slow = slow_names(profiles) if config.peers.enabled else ()
    return PrometheusSource(source_options(config, environment), metric_names(profiles), slow_names=slow)


def open_recorder(config: Config) -> ArchiveRecorder | None:
    """The recorder that a configuration asks for, None where it asks for none.

    Raises
    ------
    ArchiveError
        The file cannot be used.
    """
    return ArchiveRecorder(config.archive.record, config.archive.max_size) if config.archive.record else None


def metric_names(profiles: Sequence[Profile]) -> tuple[str, ...]:
    """All metrics that the profiles read, each once, in order."""
    return tuple(sorted(set(chain.from_iterable(profile.metric_names() for profile in profiles))))


def slow_names(profiles: Sequence[Profile]) -> tuple[str, ...]:
    """All metrics that the profiles read at a slow pace only, each once, in order."""
    fast = set(metric_names(profiles))
    return tuple(sorted(set(chain.from_iterable(profile.slow_names() for profile in profiles)) - fast))


def source_options(config: Config, environment: Mapping[str, str] = os.environ) -> SourceOptions:
    """The section ``source``, as the source takes it."""
    source = config.source
    return SourceOptions(
        url=source.url,
        backend=source.backend,
        selector=source.selector,
        connect_timeout_ms=source.connect_timeout,
        read_timeout_ms=source.read_timeout,
        max_range_ms=source.max_range,
        max_answer=source.max_answer,
        slow_every_ms=config.peers.settings_every,
        credentials=_credentials(config, environment),
        ca_file=source.tls.ca_file,
        cert_file=source.tls.cert_file,
        key_file=source.tls.key_file,
        proxy_url=source.proxy.url,
        proxy_from_environment=source.proxy.from_environment,
    )


def alertmanager_options(config: Config, environment: Mapping[str, str] = os.environ) -> AlertmanagerOptions:
    """The section ``alertmanager``, as its client takes it; ``url`` must be given."""
    section = config.alertmanager
    tls = section.tls
    return AlertmanagerOptions(
        section.url or "",
        section.timeout,
        _identity(section.basic, section.bearer, environment),
        tls.ca_file,
        tls.cert_file,
        tls.key_file,
    )


def automation_actions(config: Config) -> list[Action]:
    """What the section ``automation`` says is done for an incident; none where it says nothing."""
    section, seconds = config.automation, config.automation.timeout / 1000
    actions: list[Action] = [Command(section.command, seconds)] if section.command else []
    if section.webhook is not None:
        token = FileSecret(section.token_file).get if section.token_file is not None else None
        actions.append(Webhook(section.webhook, seconds, token))
    return actions


def _credentials(config: Config, environment: Mapping[str, str]) -> Credentials:
    source = config.source
    return replace(
        _identity(source.basic, source.bearer, environment),
        tenant=source.tenant,
        headers=source.headers,
        secret_headers={name: FileSecret(path) for name, path in source.header_files.items()},
    )


def _identity(basic: Basic | None, bearer: Bearer | None, environment: Mapping[str, str]) -> Credentials:
    def secret(path: Path | None, name: str | None) -> Secret:
        return FileSecret(path) if path is not None else EnvSecret(name or "", environment)

    return Credentials(
        basic=(basic.username, secret(basic.password_file, basic.password_env)) if basic else None,
        bearer=secret(bearer.token_file, bearer.token_env) if bearer else None,
    )
