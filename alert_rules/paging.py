"""The Alertmanager configuration of one timing profile, as plain values. No input, no output."""

from __future__ import annotations

from typing import Any

from alert_rules.receivers import PagerDuty, Receivers, receiver
from alert_rules.rules import WIDE
from alert_rules.timing import Timing, duration
from alert_rules.upkeep import WATCHDOG
from alert_rules.writing import CRITICAL, WARNING

SHOWN, PAGES, TICKETS, ALIVE = "shown-only", "pages", "tickets", "watchdog"
HOST, CLUSTER, GPU = ["cluster", "node"], ["cluster"], ["cluster", "node", "gpu"]

# One cause that many hosts show at a time is one page: a detector that stalls, a switch, a file server.
SHARED = "HwsondeDetector.*|HwsondeNetworkRdmaDown|HwsondeNetworkPfcStorm|HwsondeStorageStuck"
_NARROW = f'scope!~"{WIDE}"'

# Cause, symptoms, and the labels that must be the same on both. Alertmanager forgets an alert that ends while it is silenced: the page that it had
# opened would never be resolved. So a critical symptom stands here only if its cause is of the same page; of others its own rule knows
# (`rules.host_alerts`).
CAUSES: tuple[tuple[str, str, list[str]], ...] = (
    (
        'alertname="HwsondeExporterDown"',
        'alertname=~"HwsondeHostUnscored|HwsondeExporter(CollectorFailing|Incomplete)|HwsondeData(FaultWarning|CoverageLow)"',
        HOST,
    ),
    (
        'alertname="HwsondeDetectorDown"',
        'alertname=~"HwsondeDetector(ReadErrors|Lagging|Overloaded)|HwsondeHostUnscored"',
        CLUSTER,
    ),
    # What is wrong with the whole host shows on its devices as well.
    ('alertname="HwsondeHostAnomaly",scope="host"', 'alertname="HwsondeHostAnomaly",scope="device"', HOST),
    # The error that a GPU died of says more than its silence, as long as it is shown.
    ('alertname="HwsondeGpuXid"', 'alertname=~"HwsondeGpu(Lost|MemoryFailed|EccUncorrected)"', GPU),
    # A GPU that is known to be lost sends nothing: one page is enough. An XID alone loses nothing.
    ('alertname=~"HwsondeGpu(Lost|DriverHung)"', 'alertname="HwsondeDataFault"', HOST),
    ('alertname="HwsondeGpuDriverHung"', 'alertname=~"HwsondeGpu(Lost|Missing|XidUnheard|FabricNotReady)"', HOST),
    ('alertname="HwsondeGpuSwitchFault"', 'alertname=~"HwsondeGpu(Nvlink|Fabric).*"', HOST),
    # A part that is known to be broken explains why its host deviates there.
    (
        'alertname=~"HwsondeGpu(Xid|Lost|DriverHung|SwitchFault)"',
        f'alertname="HwsondeHostAnomaly",subsystem="gpu",{_NARROW}',
        HOST,
    ),
    ('alertname="HwsondeNetworkRdmaStuck"', f'alertname="HwsondeHostAnomaly",subsystem="network",{_NARROW}', HOST),
    (
        'alertname=~"HwsondeStorage(NvmeLost|ReadOnly)"',
        f'alertname="HwsondeHostAnomaly",subsystem="storage",{_NARROW}',
        HOST,
    ),
    ('alertname="HwsondeNetworkRdmaDown"', 'alertname=~"HwsondeNetwork(Down|LinkFlapping|RdmaTimeouts)"', HOST),
    ('alertname="HwsondeNetworkPfcStorm"', 'alertname=~"HwsondeNetwork(PfcPaused|Congested)"', CLUSTER),
    (
        'alertname="HwsondeStorageNvmeLost"',
        'alertname=~"HwsondeStorage(ReadOnly|MediaErrors|ArrayDegraded|FilesystemErrors)"',
        HOST,
    ),
    ('alertname="HwsondeMemoryEccUncorrected"', 'alertname=~"HwsondeCpuMachineCheck|HwsondeMemory(EccCorrected|PagesOffline)"', HOST),
)  # fmt: skip


def _inhibition(cause: str, symptoms: str, equal: list[str]) -> dict[str, Any]:
    # No value of ours has a comma in it. To Alertmanager two hosts that nothing names are the same one.
    named = ['node!=""'] if "node" in equal else []
    return {"source_matchers": [*cause.split(","), *named], "target_matchers": symptoms.split(","), "equal": equal}


def _routes(timing: Timing, who: Receivers) -> list[dict[str, Any]]:
    warned = TICKETS if who.tickets else SHOWN
    return [
        {
            "matchers": [f'alertname="{WATCHDOG}"'],
            "receiver": ALIVE if who.watchdog else SHOWN,
            # Told anew every minute, on which its receiver counts; a repeat of a full minute would miss every other turn by a hair.
            "group_wait": "0s",
            "group_interval": "1m",
            "repeat_interval": "50s",
        },
        {
            "matchers": ['team="hardware"', f'severity="{CRITICAL}"'],
            "receiver": PAGES,
            # A part that breaks shows in a score within seconds, in what it no longer sends after half a minute, and in an alert of its own
            # after that: one page for a host, to which the later ones add.
            "group_by": HOST,
            # Here as well, for those who take the routes over into a configuration whose top route has other times.
            **_times(timing),
            "routes": [
                {"matchers": [f'alertname=~"{SHARED}"'], "group_by": ["alertname", *CLUSTER]},
                # Told at one of many hosts, and must not be hidden behind a page about something else that is open there.
                {"matchers": [f'scope=~"{WIDE}"'], "group_by": ["alertname", *HOST]},
                # Where nothing names the host, the target stands for it.
                {"matchers": ['node=""'], "group_by": ["alertname", "cluster", "instance"]},
                # Nobody watches the host from then on: it rings, whatever else is open there, once for all its exporters.
                {"matchers": ['alertname="HwsondeExporterDown"'], "group_by": ["alertname", *HOST]},
            ],
        },
        {
            "matchers": ['team="hardware"', f'severity="{WARNING}"'],
            "receiver": warned,
            "group_by": ["alertname", "cluster"],
            "group_interval": duration(max(300, timing.group_interval)),
            "repeat_interval": "24h",
        },
    ]


def _times(timing: Timing) -> dict[str, str]:
    return {
        "group_wait": duration(timing.group_wait),
        "group_interval": duration(timing.group_interval),
        "repeat_interval": duration(timing.repeat),
    }


def configuration(timing: Timing, who: Receivers) -> dict[str, Any]:
    """Give the whole configuration: critical alerts of the team page, warnings are tickets, the rest is only shown."""
    named = ((SHOWN, ()), (PAGES, who.pages), (TICKETS, who.tickets), (ALIVE, who.watchdog))
    pagerduty = [member.url for member in who.pages if isinstance(member, PagerDuty)]
    return {
        **({"global": {"pagerduty_url": pagerduty[0]}} if pagerduty else {}),
        "route": {
            "receiver": SHOWN,
            "group_by": ["alertname", *HOST],
            **_times(timing),
            "routes": _routes(timing, who),
        },
        # Cause over symptom.
        "inhibit_rules": [_inhibition(*one) for one in CAUSES],
        "receivers": [receiver(name, members) for name, members in named if members or name == SHOWN],
    }
