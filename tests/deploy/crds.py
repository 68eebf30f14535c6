"""The part of the Prometheus operator's definitions (monitoring.coreos.com/v1) that our objects use, as JSON schemas.

Written after the operator's public API reference. Stricter than the operator's own: a field that is not named here is refused.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_DURATION: Schema = {
    "type": "string",
    "pattern": r"^(0|([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$",
}
_ACTIONS = [
    "replace", "keep", "drop", "hashmod", "labelmap", "labeldrop", "labelkeep", "lowercase", "uppercase", "keepequal", "dropequal",
]  # fmt: skip


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items, "minItems": 1}


def _definition(kind: str, spec: Schema) -> Schema:
    metadata = _object(
        ["name"], name={"type": "string"}, namespace={"type": "string"}, labels=_TEXTS, annotations=_TEXTS
    )
    return _object(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion={"const": "monitoring.coreos.com/v1"},
        kind={"const": kind},
        metadata=metadata,
        spec=spec,
    )


_RELABELING = _object(
    [],
    action={"enum": _ACTIONS},
    sourceLabels=_list({"type": "string", "pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"}),
    separator={"type": "string"},
    regex={"type": "string"},
    modulus={"type": "integer"},
    targetLabel={"type": "string"},
    replacement={"type": "string"},
)
_KEY = _object(["key"], name={"type": "string"}, key={"type": "string"}, optional={"type": "boolean"})
_SECRET_OR_MAP = {**_object([], secret=_KEY, configMap=_KEY), "minProperties": 1, "maxProperties": 1}
_TLS = _object(
    [],
    ca=_SECRET_OR_MAP,
    cert=_SECRET_OR_MAP,
    keySecret=_KEY,
    serverName={"type": "string"},
    insecureSkipVerify={"type": "boolean"},
)
_ENDPOINT = _object(
    [],
    port={"type": "string"},
    path={"type": "string"},
    scheme={"enum": ["http", "https"]},
    tlsConfig=_TLS,
    basicAuth=_object([], username=_KEY, password=_KEY),
    interval=_DURATION,
    scrapeTimeout=_DURATION,
    honorLabels={"type": "boolean"},
    relabelings=_list(_RELABELING),
    metricRelabelings=_list(_RELABELING),
)
_RULE: Schema = {
    **_object(
        ["expr"],
        alert={"type": "string"},
        record={"type": "string"},
        expr={"type": ["string", "integer"]},
        **{"for": _DURATION},
        keep_firing_for={**_DURATION, "minLength": 1},
        labels=_TEXTS,
        annotations=_TEXTS,
    ),
    "oneOf": [{"required": ["alert"]}, {"required": ["record"]}],
}
SCHEMAS: dict[str, Schema] = {
    "ServiceMonitor": _definition(
        "ServiceMonitor",
        _object(
            ["endpoints", "selector"],
            jobLabel={"type": "string"},
            targetLabels=_list({"type": "string"}),
            selector=_object([], matchLabels=_TEXTS),
            namespaceSelector=_object([], any={"type": "boolean"}, matchNames=_list({"type": "string"})),
            endpoints=_list(_ENDPOINT),
        ),
    ),
    "PrometheusRule": _definition(
        "PrometheusRule",
        _object(
            ["groups"],
            groups=_list(
                _object(["name"], name={"type": "string", "minLength": 1}, interval=_DURATION, rules=_list(_RULE))
            ),
        ),
    ),
}
