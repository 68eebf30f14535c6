"""The GPUs that were seen since the exporter started, whatever the driver sees now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwsonde_exporter.nvml.answer import MAX_DEVICES, Device, DeviceReply, Reply, WorkerState
from hwsonde_exporter.nvml.quarantine import WHOLE

# A GPU that could not be asked for so long, since there is no worker, is no longer called up.
_GRACE_SECONDS = 10.0
# States that pass by themselves; in the others no GPU can be used.
_PASSING = frozenset({WorkerState.STARTING, WorkerState.HUNG, WorkerState.CRASHED, WorkerState.STUCK})


@dataclass(slots=True)
class _Known:
    label: str
    bus_id: str
    number: int  # the driver's number now or when it was last seen
    asked: float  # monotonic time of the last answer that spoke of it
    blamed: bool = False  # the worker hung in it


class Fleet:
    """Remembers GPUs by UUID, so that one that is lost still has a series that says so."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def merge(self, reply: Reply, skipped: Mapping[int, Mapping[str, float]], now: float) -> tuple[Device, ...]:
        """Take what the worker says at monotonic time ``now`` and give every GPU ever seen.

        Parameters
        ----------
        reply
            The worker's.
        skipped
            What is left out, by the driver's number: seconds until it is tried again, by group.
        now
            Monotonic time.
        """
        seen = {}
        for device in reply.devices:
            if device.uuid and device.uuid not in seen and self._note(device, now):
                seen[device.uuid] = device
        numbers = {device.number for device in seen.values()}
        devices = []
        for uuid, known in self._known.items():
            # The number of one that is missing may be another one's by now.
            own = uuid in seen or known.number not in numbers
            left_out = skipped.get(known.number, {}) if own else {}
            if (found := seen.get(uuid)) is not None:
                up, error, readings = not found.error, found.error, found.readings
            else:
                hung = WHOLE in left_out
                up, error, readings = False, "timeout" if hung else reply.unreachable.get(known.number, "missing"), ()
                known.asked = now
            known.blamed = False
            devices.append(Device(known.label, uuid, known.bus_id, up, error, readings, left_out))
        named = {known.number for uuid, known in self._known.items() if uuid not in seen}
        for number, error in reply.unreachable.items():
            # One that was out of reach from the start has no other name than its number.
            if number not in named:
                devices.append(Device(str(number), "", "", up=False, error=error, skipped=skipped.get(number, {})))
        return _in_order(devices)

    def dark(self, state: WorkerState, now: float) -> tuple[Device, ...]:
        """Give every GPU ever seen while there is no worker to ask: those it hung in are down, the others after a while."""
        devices = []
        for uuid, known in self._known.items():
            down = known.blamed or state not in _PASSING or now - known.asked > _GRACE_SECONDS
            error = "timeout" if known.blamed else state.value
            devices.append(Device(known.label, uuid, known.bus_id, False if down else None, error if down else ""))
        return _in_order(devices)

    def blame(self, number: int) -> None:
        """Note that the worker hung in the GPU of this number."""
        for known in self._known.values():
            if known.number == number:
                known.blamed = True

    def names(self) -> list[tuple[str, str, str]]:
        """Label, UUID and PCI address of each GPU ever seen."""
        return [(known.label, uuid, known.bus_id) for uuid, known in list(self._known.items())]

    def name(self, uuid: str) -> str | None:
        """Label of a GPU, or None for one that was never seen."""
        known = self._known.get(uuid)
        return known.label if known is not None else None

    def _note(self, device: DeviceReply, now: float) -> bool:
        known = self._known.get(device.uuid)
        if known is None:
            if len(self._known) >= MAX_DEVICES:
                return False
            self._known[device.uuid] = _Known(str(device.number), device.bus_id, device.number, now)
        else:
            known.number, known.asked = device.number, now
            known.bus_id = device.bus_id or known.bus_id
        return True


def _in_order(devices: list[Device]) -> tuple[Device, ...]:
    return tuple(sorted(devices, key=lambda device: (int(device.index), device.uuid)))
