"""What an XID or SXID code means, and which of them have a counter before they were ever seen."""

from __future__ import annotations

from hwsonde_exporter.nvml._xid_table import TABLE, Advice, Origin, Severity, Xid

__all__ = [
    "LAST",
    "MOST",
    "PRECREATED",
    "TABLE",
    "Advice",
    "Origin",
    "Severity",
    "Xid",
    "explain",
    "switch_advice",
    "switch_unit",
    "switch_units",
]

# The last code of the table, and the greatest that is believed: what lies above was never printed by a driver.
LAST = max(TABLE)
MOST = 999

# Codes that are worth a page exist at 0 from the start, or increase() would miss the first of each. So do four that tell
# of a board that is wearing out or of a peer that misbehaves: whoever looks at a trend of them wants to see the zero.
PRECREATED: tuple[int, ...] = tuple(
    sorted({code for code, row in TABLE.items() if row.severity is Severity.CRITICAL} | {63, 92, 94, 137})
)


def explain(code: int) -> Xid:
    """What is known of a code; of one that is not in the table, that it is not known."""
    known = TABLE.get(code)
    return known or Xid(code, "not documented", Origin.DRIVER, Severity.WARNING, Advice.ASK)


# NVSwitch error codes are numbered by thousands for the unit that found the error (ctrl_dev_nvswitch.h of the open driver).
_UNITS = {
    10: "host interface",
    11: "port, inbound",
    12: "port, outbound",
    13: "port, flush state",
    14: "port, transaction state",
    15: "port, routing",
    16: "port",
    17: "link controller",
    18: "link interface",
    19: "link, transaction layer",
    20: "link, data and physical layer",
    21: "fabric switch",
    22: "link training controller",
    23: "crossbar",
    24: "port, source tracking",
    25: "link state",
    26: "switch's system controller",
    27: "cable controller",
    28: "port, multicast",
    29: "port, reduction",
}
_NAMED = {
    10004: "too hot",
    10005: "no longer too hot",
    10006: "shut down for heat",
    10008: "firmware could not start",
    11004: "access refused: partitions are configured wrongly",
    12028: "a GPU's answer says that access was refused",
    19084: "link lost its heartbeat",
    20001: "link sent data again",
    20009: "link has many errors",
    20012: "link's checksums fail",
    20034: "link is down",
    22013: "training warning",
    24007: "a request was never answered",
}  # fmt: skip


def switch_units() -> dict[int, str]:
    """Units of an NVSwitch by the thousands of their codes."""
    return dict(_UNITS)


def switch_unit(code: int) -> str:
    """Where in an NVSwitch a code comes from, and what it says where that is known."""
    unit = _UNITS.get(code // 1000, "not documented")
    return f"{unit}: {_NAMED[code]}" if code in _NAMED else unit


def switch_advice(code: int, severity: str) -> str:
    """What to do about an SXID; the switch's driver itself prints how bad each is."""
    if code in {10004, 10006}:
        return "check fans, inlet temperature and heat sinks"
    if code == 11004:
        return "check the partitions of the fabric manager"
    if severity == "fatal":
        return "drain the host and reset all GPUs and switches of the fabric; reboot the host if links stay down"
    return "nothing to do; look at the link if it comes often"
