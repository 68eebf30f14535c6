"""What the pages say: Prometheus templates for the annotations of alerts.

A number (score, share, age) may stand in an annotation and never in a label: a label's value is part of an alert's identity.
"""

from __future__ import annotations

# The host as people name it, and as the detector's page does: the entity labels that are not empty, joined.
HOST = "{{ with $labels.cluster }}{{ . }}/{{ end }}{{ or $labels.node $labels.instance }}"


def words(subsystem: str, summary: str, description: str) -> dict[str, str]:
    """Give the annotations of an alert about a part of a host; the summary begins with the host's name."""
    return {"summary": f"{HOST}: {summary}", "description": description, "subsystem": subsystem}


# The same as a part of an address.
_ADDRESSED = "{{ with $labels.cluster }}{{ . | urlquery }}%2F{{ end }}{{ $labels.node | urlquery }}"
# Behind the address of the detector's page, which opens at this host.
HOST_QUERY = f"{{{{ if $labels.node }}}}#host={_ADDRESSED}{{{{ end }}}}"
# Behind the address of the incidents: those that are open on this host and no other, or all that are open where the alert is about none.
INCIDENTS_QUERY = f"?{{{{ if $labels.node }}}}node={_ADDRESSED}&{{{{ end }}}}state=open"

_THIS_HOST = "$labels.cluster $labels.node"
_SELECTOR = "cluster=%q,node=%q"

# What an operator looks at first, by subsystem.
_FIRST_CHECKS = {
    "cpu": "Look for processes that do not belong to the job, throttling and a changed frequency governor.",
    "memory": "Look for memory pressure: what grew, whether pages are reclaimed or swapped, and the machine-check log.",
    "network": "Look at errors, drops, retransmits and the link of each device, then at the switch port.",
    "storage": "Look for the disk with the longest service time, what writes to it, and its health log.",
    "gpu": "Look at clocks, power brake, errors and the processes on the GPU that is named first.",
    "power": "Look at power limits, supplies and caps that changed.",
    "thermal": "Look at inlet temperature, fans and throttling.",
    "pcie": "Look at link width, speed and replay counts.",
    "workload": "Compare with the other hosts of the job: the job itself may have changed its phase.",
}


def query(expr: str, arguments: str = _THIS_HOST) -> str:
    """Give the pipeline that asks Prometheus for ``expr``, whose %q are filled from ``arguments``."""
    return f"query (printf `{expr}` {arguments})"


def score(text: str) -> str:
    """Give ``text`` with the fused score in place of ``%``, or nothing while no score is known."""
    before, after = text.split("%")
    value = query(f'entity:hwsonde_anomaly_score:max{{detector="fused",{_SELECTOR}}}')
    return f'{{{{ with {value} }}}}{before}{{{{ . | first | value | printf "%.1f" }}}}{after}{{{{ end }}}}'


def top_channels(count: int) -> str:
    """Give the ``count`` channels with the largest share and their shares, comma separated; nothing when none is published."""
    found = query(f"topk({count}, entity_channel:hwsonde_anomaly_channel_share:max{{{_SELECTOR}}})")
    entry = '{{ $c | label "channel" }} ({{ $c | value | humanizePercentage }})'
    return f"{{{{ range $i, $c := {found} }}}}{{{{ if $i }}}}, {{{{ end }}}}{entry}{{{{ end }}}}"


# A value in its unit, as a template of two arguments. Symbols follow the prefix at once (1.2GHz), words after a space. Nobody says
# millithreads: below 1 only units of physics have a prefix.
_SIZE = (
    '{{ define "size" }}{{ if eq .arg1 "ratio" }}{{ .arg0 | humanizePercentage }}'
    '{{ else if eq .arg1 "seconds" }}{{ .arg0 | humanizeDuration }}'
    '{{ else }}{{ if and (lt .arg0 1.0) (gt .arg0 -1.0) (ne .arg1 "hertz") (ne .arg1 "watts") }}{{ printf "%.3g" .arg0 }}'
    '{{ else }}{{ .arg0 | humanize }}{{ end }}{{ if eq .arg1 "hertz" }}Hz{{ else if eq .arg1 "watts" }}W{{ else if eq .arg1 "bytes" }}B'
    '{{ else if eq .arg1 "bytes/s" }}B/s{{ else if eq .arg1 "celsius" }} °C{{ else if .arg1 }} {{ .arg1 }}{{ end }}{{ end }}{{ end }}'
)


def _of_channel(series: str, then: str) -> str:
    """Give ``then`` for the sample of ``series`` that the channel $c of this host has, or nothing without one."""
    found = query(f"entity_channel:hwsonde_anomaly_{series}:max{{{_SELECTOR},channel=%q}}", f"{_THIS_HOST} $c")
    return f"{{{{ with {found} }}}}{then}{{{{ end }}}}"


def _beyond(series: str, compared: str, words: str) -> str:
    """Give the bound of what was expected, where the value $v lies beyond it."""
    size = '{{ template "size" (args $b $u) }}'
    shown = f"{{{{ if {compared} $v $b }}}}, {words} {size}{{{{ end }}}}"
    return _of_channel(series, f"{{{{ $b := . | first | value }}}}{shown}")


def strongest(text: str) -> str:
    """Give ``text`` with what deviates most in place of ``%``, or nothing where no channel of the named subsystem is published.

    What deviates most is the channel with the largest share: its title, its device and where that sits, its value and the bound that it
    passed, as far as each of them is published.
    """
    before, after = text.split("%")
    channels = f"entity_channel:hwsonde_anomaly_channel_share:max{{{_SELECTOR},subsystem=%q}}"
    found = query(f"topk(1, {channels})", f"{_THIS_HOST} $labels.subsystem")
    known = _of_channel(
        "channel_info",
        '{{ $i := . | first }}{{ $u = label "unit" $i }}{{ with label "title" $i }}{{ $t = . }}'
        '{{ with label "device" $i }}{{ $d = printf " of %s %s" (label "class" $i) . }}{{ end }}'
        '{{ with label "address" $i }}{{ $d = printf "%s (%s)" $d . }}{{ end }}{{ end }}',
    )
    size = _of_channel(
        "channel_value",
        '{{ $v := . | first | value }}: {{ template "size" (args $v $u) }}'
        + _beyond("expected_upper", "gt", "expected at most")
        + _beyond("expected_lower", "lt", "expected at least"),
    )
    names = '{{ $c := . | first | label "channel" }}{{ $t := "" }}{{ $d := "" }}{{ $u := "" }}'
    return f"{{{{ with {found} }}}}{names}{known}{before}{{{{ or $t $c }}}}{{{{ $d }}}}{size}{after}{{{{ end }}}}"


def first_check() -> str:
    """Give the advice for the subsystem that the alert names."""
    branches = "".join(
        f'{{{{ {"else if" if number else "if"} eq $labels.subsystem "{name}" }}}}{advice}'
        for number, (name, advice) in enumerate(_FIRST_CHECKS.items())
    )
    return f"{branches}{{{{ else }}}}Look at the channels that moved first.{{{{ end }}}}"


# Whom an episode is about: it is told at one host, and may be that of many.
_CONCERNED = (
    HOST + '{{ if eq $labels.scope "job" }} and the other hosts of its job'
    '{{ else if eq $labels.scope "fabric" }} and hosts of other jobs{{ end }}'
)
_NORMAL = (
    '{{ if or (eq $labels.scope "job") (eq $labels.scope "fabric") }}these hosts have{{ else }}this host has{{ end }} '
    "learned as normal"
)

HOST_ANOMALY = {
    "summary": f"{_SIZE}{_CONCERNED}: {{{{ $labels.subsystem }}}} deviates from what {_NORMAL}"
    f"{score(' (score %, 1 is the threshold)')}{strongest(', most of all %')}. Open the host's page and check this part.",
    "description": f"An episode is open on {_CONCERNED} and is attributed to {{{{ $labels.subsystem }}}}. {first_check()}",
    "subsystem": "{{ $labels.subsystem }}",
    "score": score("%"),
    "top_channels": top_channels(5),
}

_MISSING = "{{ if or $labels.node $labels.instance }}" + HOST + "{{ else }}every target{{ end }}"

_UNWATCHED = (
    "{{ if or $labels.node $labels.instance }}this host is watched by nobody{{ else }}no host is watched{{ end }}"
)

EXPORTER_DOWN = {
    "summary": f"{_MISSING}: the hardware exporter does not answer, so {_UNWATCHED}. "
    "See whether the host or only the exporter is down.",
    "description": "Prometheus cannot scrape hwsonde-exporter, or no longer scrapes it although it did a short while ago.",
}

COLLECTOR_FAILING = {
    "summary": f"{HOST}: collector {{{{ $labels.collector }}}} of the exporter fails, so a part of this host is not watched. "
    "Read the exporter's landing page for the reason.",
    "description": "The collector is available on this host and yet gives nothing: a kernel file changed, a permission was lost, "
    "or a device hangs.",
}

HOST_UNSCORED = {
    "summary": f"{HOST}: scraped, but the detector has no score for it. Check the detector's source.selector and its page.",
    "description": "The exporter answers and the detector publishes nothing for this host: it is not selected, "
    "its entity labels are missing, or it never learned.",
}

DETECTOR_DOWN = {
    "summary": "No detector{{ with $labels.cluster }} of {{ . }}{{ end }} answers: no anomaly is found until one runs again. "
    "Start it, or read its log.",
    "description": "Prometheus can scrape no hwsonde-detector here, or no longer scrapes any although it did a short while ago.",
}

REPLICA_DOWN = {
    "summary": f"{HOST}: the detector at {{{{ $labels.instance }}}} does not answer, another one does. "
    "Start it, or read its log: no anomaly is found when the last one ends too.",
    "description": "Prometheus cannot scrape this hwsonde-detector, or no longer scrapes it although it did a short while ago. "
    "Another one of its cluster answers.",
}

DETECTOR_STALLED = {
    "summary": f"{HOST}: the newest score is {{{{ $value | humanizeDuration }}}} old although the exporter answers. "
    "Read the detector's log and its page.",
    "description": "The detector answers but does not judge new windows: its reads fail, it cannot keep up, or the clocks differ.",
}

READ_ERRORS = {
    "summary": "The detector at {{ $labels.instance }} fails to read from its source more than once in ten answers. "
    "Check the source's address, load and limits.",
    "description": "Windows are judged late or not at all while reads fail. "
    "The reason is a label of hwsonde_detector_read_errors_total.",
}
