"""What only newer data-centre GPUs tell: NVLink, fabric, remapped rows, performance monitors."""

from __future__ import annotations

from collections.abc import Sequence

from tests.nvml_shim.boards import Board, Calls, counter, reading

FABRIC_HEALTHY = 0x1AA  # each aspect "not degraded", configuration right


def nvlinks(board: Board, links: int, speed: int, share: float, remote: str, version: int) -> Calls:
    """Links of ``speed`` MB a second, each used by ``share``; counters in KiB, raw ones with the protocol's overhead."""
    fields: Calls = {"91": {"mean": links, "type": "uint"}, "90": {"mean": speed, "type": "uint"}}
    load = board.load
    for link in range(links):
        rate = share * speed * 1e6 / 1024 * (1 + 0.002 * link)
        swing = 0.5 * rate
        for number, direction in (("138", 1.0), ("139", 0.98)):
            fields[f"{number}/{link}"] = counter(rate * 4e5 * direction, rate * direction, swing * direction, load)
            raw = str(int(number) + 2)
            fields[f"{raw}/{link}"] = counter(
                rate * 4.3e5 * direction, rate * 1.07 * direction, swing * direction, load
            )
        fields[f"164/{link}"] = {"mean": speed, "type": "uint"}
    numbers = [str(link) for link in range(links)]
    return {
        "nvmlDeviceGetNvLinkState": dict.fromkeys(numbers, 1) | {"*": {"error": 2}},
        "nvmlDeviceGetNvLinkVersion": dict.fromkeys(numbers, version),
        "nvmlDeviceGetNvLinkRemoteDeviceType": dict.fromkeys(numbers, 2),
        "nvmlDeviceGetNvLinkRemotePciInfo_v2": {
            number: {"busId": remote.format(int(number) % 4), "pciDeviceId": 0x22A310DE, "pciSubSystemId": 0x15F110DE}
            for number in numbers
        },
        "nvmlDeviceGetNvLinkErrorCounter": {f"{number}/{kind}": 0 for number in numbers for kind in range(4)},
        "nvmlDeviceGetFieldValues": fields,
    }


def fabric() -> Calls:
    """Registered with the fabric of NVSwitches of one host, which has no name."""
    return {
        "nvmlDeviceGetGpuFabricInfoV": {
            "clusterUuid": "00000000-0000-0000-0000-000000000000",
            "status": 0,
            "cliqueId": 0,
            "state": 3,
            "healthMask": FABRIC_HEALTHY,
            "healthSummary": 1,
        },
        "nvmlDeviceGetGpuFabricInfo": {"clusterUuid": "00000000-0000-0000-0000-000000000000"},
    }


def remapping(board: Board, corrected: int = 0, uncorrected: int = 0, pending: int = 0, failed: int = 0) -> Calls:
    """Rows of memory that spare ones stand in for; each remap takes a bank's first spare rows."""
    touched = corrected + uncorrected
    banks = board.model.remap_banks
    values = (corrected, uncorrected, pending, failed)
    return {
        "nvmlDeviceGetRemappedRows": dict(zip(("corrRows", "uncRows", "isPending", "failureOccurred"), values, strict=True)),
        "nvmlDeviceGetRowRemapperHistogram": {
            "max": banks - touched, "high": touched - failed, "partial": 0, "low": 0, "none": failed,
        },
        "nvmlDeviceGetFieldValues": {str(142 + place): {"mean": value, "type": "uint"} for place, value in enumerate(values)},
    }  # fmt: skip


def sram(exceeded: int = 0, uncorrected: int = 0) -> Calls:
    """Errors of the caches and registers."""
    names = (
        "aggregateUncParity", "aggregateUncSecDed", "aggregateCor", "volatileUncParity", "volatileUncSecDed", "volatileCor",
        "aggregateUncBucketL2", "aggregateUncBucketSm", "aggregateUncBucketPcie", "aggregateUncBucketMcu",
        "aggregateUncBucketOther",
    )  # fmt: skip
    counts = dict.fromkeys(names, 0) | {"aggregateUncSecDed": uncorrected, "aggregateUncBucketL2": uncorrected}
    return {"nvmlDeviceGetSramEccErrorStatus": counts | {"bThresholdExceeded": exceeded}}


def monitors(board: Board, links: int, speed: int, share: float) -> Calls:
    """Performance monitors in percent and MiB a second; tensor pipes bound the SMs, which bound the whole."""
    load = board.load
    busy = 100 * load.busy
    metrics = {
        "1": busy, "2": 0.94 * busy, "3": 0.31 * busy, "4": 0.09 * busy, "5": 0.52 * busy, "6": 0.0, "7": 0.52 * busy,
        "8": 0.0, "9": 0.0, "10": 100 * load.dram, "11": 0.001 * busy, "12": 0.12 * busy, "13": 0.03 * busy,
        "20": load.sent / 2**20, "21": load.received / 2**20,
        "60": links * share * speed * 1e6 / 2**20, "61": links * share * speed * 1e6 / 2**20,
    }  # fmt: skip
    return {
        "nvmlGpmQueryDeviceSupport": 1,
        "nvmlGpmMetricsGet": {
            number: reading(round(float(mean), 4), round(min(0.04 * mean, 100 - busy), 4), load)
            for number, mean in metrics.items()
        },
    }


def counted_bytes(board: Board, errors: Sequence[int] = (0,) * 11) -> Calls:
    """PCIe's counters of bytes, of falls into recovery and of eleven kinds of errors."""
    load = board.load
    fields = {
        "197": counter(load.sent * 2e5, load.sent, 0.4 * load.sent, load),
        "198": counter(load.received * 2e5, load.received, 0.4 * load.received, load),
        "169": counter(3, 0, type="uint"),
    }
    fields |= {str(173 + place): counter(count, 0, type="uint") for place, count in enumerate(errors)}
    return {"nvmlDeviceGetFieldValues": fields}
