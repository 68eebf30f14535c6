"""The section on where samples come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from hwsonde_detector.config.addresses import Selector, Url
from hwsonde_detector.config.identity import Basic, Bearer, Tls
from hwsonde_detector.config.section import Section
from hwsonde_detector.config.values import LINE, Choice, FilePath, Size, Span, Switch

SECOND = 1000
HOUR = 3600 * SECOND


class Proxy(Section):
    """A proxy on the way to the source. Without this section the environment's proxies are not used."""

    url: Annotated[str, Url()] | None = Field(default=None, description="The proxy.")
    from_environment: Annotated[bool, Switch()] = Field(
        default=False, description="Use HTTP_PROXY, HTTPS_PROXY and NO_PROXY; never for an address of this machine."
    )


class Source(Section):
    """Where samples come from: the HTTP API of a Prometheus or of a backend that speaks the same."""

    url: Annotated[str, Url()] = Field(
        default="http://127.0.0.1:9090", description="Address of the server, with its path prefix if it has one."
    )
    backend: Annotated[str, Choice(("prometheus", "thanos", "mimir", "victoriametrics"))] = Field(
        default="prometheus",
        description="What the server is: Thanos is asked for no partial answers, VictoriaMetrics for no cached ones and nothing held back; "
        "with `prometheus` each of them is, as others pass over what they do not know.",
    )
    selector: Annotated[str, Selector()] = Field(
        default='job=~"hwsonde-exporter"',
        description="Which targets are looked at, as PromQL label matchers; empty: all that export the profiles' metrics.",
    )
    connect_timeout: Annotated[int, Span(50, 60 * SECOND)] = Field(
        default=2 * SECOND, description="How long a connection may take to be accepted."
    )
    read_timeout: Annotated[int, Span(50, 600 * SECOND)] = Field(
        default=10 * SECOND, description="How long one answer may take as a whole."
    )
    max_range: Annotated[int, Span(5 * SECOND, 24 * HOUR)] = Field(
        default=600 * SECOND,
        description="The longest stretch that one read asks for; what was missed is caught up in such parts.",
    )
    max_answer: Annotated[int, Size(2**16, 2**32)] = Field(default=2**28, description="A larger answer is refused.")
    history: Annotated[int, Span(0, 30 * 24 * HOUR)] = Field(
        default=HOUR, description="How much of the past is read for learning at a first start; 0s: none."
    )
    basic: Basic | None = Field(default=None, description="HTTP basic authentication.")
    bearer: Bearer | None = Field(default=None, description="A bearer token.")
    tenant: Annotated[str, LINE] | None = Field(default=None, description="Tenant, sent as `X-Scope-OrgID`.")
    headers: dict[str, Annotated[str, LINE]] = Field(
        default={}, description="Further headers by name. No secrets here: this file is shown in logs and backups."
    )
    header_files: dict[str, Annotated[Path, FilePath()]] = Field(
        default={}, description="Further headers whose values are secrets: file by header name."
    )
    tls: Tls = Field(default=Tls(), description="Certificates.")
    proxy: Proxy = Field(default=Proxy(), description="Proxy.")
