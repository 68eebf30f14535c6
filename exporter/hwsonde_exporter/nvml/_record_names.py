"""Identities in recordings: replaced, the same by the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_ZERO_UUID = "00000000-0000-0000-0000-000000000000"


class Names:
    """Replaces what identifies a machine, the same by the same.

    Parameters
    ----------
    bus
        Whether PCI addresses are replaced, too. A recording that comes with the host's sysfs keeps them: they say in which
        slot a card is, not which card it is.
    uuid, serial
        Replace a UUID and a serial number; where a recording comes with other files of the host, in the way in which they are
        replaced there.
    """

    def __init__(
        self,
        *,
        bus: bool = True,
        uuid: Callable[[str], str] | None = None,
        serial: Callable[[str], str] | None = None,
    ) -> None:
        self._bus = bus
        self._uuid = uuid or self._numbered_uuid
        self._serial = serial or self._numbered_serial
        self._known: dict[tuple[str, str], str] = {}

    def replace(self, recording: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of a recording without identities."""
        devices = []
        for device in recording["devices"]:
            copy = {**device, "calls": self._calls(device["calls"])}
            if "mig" in device:
                copy["mig"] = [{**part, "calls": self._calls(part["calls"])} for part in device["mig"]]
            devices.append(copy)
        return {**recording, "devices": devices}

    def _calls(self, calls: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(calls)
        for function, answer in calls.items():
            if function == "nvmlDeviceGetUUID" and isinstance(answer, str):
                found[function] = self._uuid(answer)
            elif function == "nvmlDeviceGetSerial" and isinstance(answer, str):
                found[function] = self._serial(answer)
            elif function == "nvmlDeviceGetPciInfo_v3":
                found[function] = self._address(answer)
            elif function == "nvmlDeviceGetNvLinkRemotePciInfo_v2" and "error" not in answer:
                found[function] = {key: self._address(value) for key, value in answer.items()}
            elif function == "nvmlDeviceGetGpuFabricInfoV" and answer.get("clusterUuid", _ZERO_UUID) != _ZERO_UUID:
                found[function] = {**answer, "clusterUuid": self._uuid(answer["clusterUuid"])}
        found.pop("nvmlDeviceGetBoardId", None)  # made of the PCI address
        return found

    def _numbered_uuid(self, text: str) -> str:
        prefix = text.partition("-")[0] + "-" if text.startswith(("GPU-", "MIG-")) else ""
        return prefix + self._number("uuid", text, lambda number: f"00000000-0000-0000-0000-{number:012x}")

    def _numbered_serial(self, text: str) -> str:
        return self._number("serial", text, lambda number: f"{number:013d}")

    def _address(self, answer: Any) -> Any:  # noqa: ANN401  (JSON)
        if not self._bus or "busId" not in answer:
            return answer
        return {**answer, "busId": self._number("bus", answer["busId"], lambda number: f"00000000:{number:02X}:00.0")}

    def _number(self, kind: str, text: str, form: Callable[[int], str]) -> str:
        if (kind, text) not in self._known:
            self._known[kind, text] = form(1 + sum(known == kind for known, _ in self._known))
        return self._known[kind, text]
