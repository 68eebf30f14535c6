"""Alerts about the data that hosts send, and what their pages say. No input, no output."""

from __future__ import annotations

from alert_rules.timing import Timing
from alert_rules.wording import HOST, query
from alert_rules.writing import CRITICAL, PAIR, WARNING, Rule, Writer

RECORDED = "entity_kind:hwsonde_data_fault_score:max"


def _parts(state: str) -> str:
    """Give the pipeline that asks how many parts of the class in ``$class`` are in a state."""
    parts = f'max without ({PAIR}) (hwsonde_data_fault_parts{{cluster=%q,node=%q,class=%q,state="{state}"}})'
    return query(parts, "$labels.cluster $labels.node $class")


def _oldest(text: str, otherwise: str) -> str:
    """Give ``text`` about the part that has been at fault for longest, or ``otherwise`` where none is told.

    In the text ``.`` is its age, ``$class`` and ``$device`` say which it is.
    """
    age = f"topk(1, max without ({PAIR}) (hwsonde_data_fault_age_seconds{{cluster=%q,node=%q,kind=%q}}))"
    found = query(age, "$labels.cluster $labels.node $labels.kind")
    named = '{{ $class := . | label "class" }}{{ $device := . | label "device" }}'
    return f"{{{{ range {found} }}}}{named}{text}{{{{ else }}}}{otherwise}{{{{ end }}}}"


# A fault of the whole host has a device without a name.
_PART = "{{ if $device }}{{ $class }} {{ $device }}{{ else }}the host{{ end }}"
_LASTING = " for {{ . | value | humanizeDuration }}"
_LEFT = (
    f"{{{{ range {_parts('reporting')} }}}}; {{{{ . | value }}}}"
    f"{{{{ range {_parts('usual')} }}}} of {{{{ . | value }}}} {{{{ $class }}}}s{{{{ end }}}} still report{{{{ end }}}}"
)
_KINDS = {
    "gap": "scrapes are lost again and again",
    "impossible": "values that cannot be",
    "reset": "counters begin anew again and again without a restart",
    "stuck": "a value repeats to the last bit while its like move",
    "slow": "reading takes far longer than usual",
    "skew": "the clock differs from the server's",
}


def _what() -> str:
    """Give what is wrong, by kind."""
    branches = "".join(
        f'{{{{ {"else if" if number else "if"} eq $labels.kind "{kind}" }}}}{text}'
        for number, (kind, text) in enumerate(_KINDS.items())
    )
    return f"{branches}{{{{ else }}}}data at fault{{{{ end }}}}"


MISSING = {
    "summary": f"{HOST}: {_oldest(f'{_PART} has sent nothing{_LASTING}{_LEFT}', 'a part of it has sent nothing')}. "
    "See whether it is still there and what the kernel's log says.",
    "description": "Something that was always there on this host is away: a device, a collector of the exporter, a metric or a target. "
    "Nothing was restarted and no workload that ended explains it. The host's page names all that is missing.",
    "subsystem": "data",
    "score": '{{ $value | printf "%.1f" }}',
}
FAULT = {
    "summary": f"{HOST}: {_what()}{_oldest(f', {_PART}{_LASTING}', '')}. Open the host's page for the series.",
    "description": "The data of this host have been at fault for longer than they may be. What is judged from them may be wrong, and parts "
    "that fail quietly show here first.",
    "subsystem": "data",
    "score": '{{ $value | printf "%.1f" }}',
}


def recording_rule(timing: Timing) -> Rule:
    """What the detectors of a pair say of the data of hosts, as one answer."""
    score = "hwsonde_data_fault_score"
    fresh = f"{score} and time() - timestamp({score}) <= {timing.fresh}"
    return {"record": RECORDED, "expr": f"max without ({PAIR}) ({fresh})"}


def data_alerts(timing: Timing, writer: Writer) -> list[Rule]:
    """Alerts about data; that answers of the server are partial is an alert about the detector."""
    return [
        # The score passes 1 only after its fault has lasted: nothing is waited for here.
        writer.alert(
            "HwsondeDataFault", CRITICAL, f'{RECORDED}{{kind="missing"}} >= 1', MISSING, keep_firing=timing.keep_firing
        ),
        writer.alert(
            "HwsondeDataFaultWarning",
            WARNING,
            f'{RECORDED}{{kind!~"missing|partial"}} >= 1',
            FAULT,
            keep_firing=timing.keep_firing,
        ),
    ]
