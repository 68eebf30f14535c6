"""Asks the board's management controller for the power of the whole host, by way of ipmitool."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import exists
from hwsonde_exporter.errors import ReadError, Reason, Unavailable

_DEVICES = (Path("/dev/ipmi0"), Path("/dev/ipmi/0"), Path("/dev/ipmidev/0"))
_FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
# A controller that is busy answers after seconds; one that does not is asked again with the next period.
_TIMEOUT_SECONDS = 10.0
# How long a killed tool may take to die; one that waits inside the kernel's driver does not.
_GRACE_SECONDS = 1.0
_MAX_WATTS = 100_000


def parse_power_reading(data: bytes) -> int | None:
    """Watts of ``ipmitool dcmi power reading``, or None where the controller measures nothing or the answer is odd."""
    value = None
    for line in parsing.lines(data):
        name, colon, rest = line.partition(b":")
        words = rest.split()
        if not colon or not words:
            continue
        if name.strip() == b"Instantaneous power reading" and words[1:] == [b"Watts"]:
            value = parsing.number(words[0])
        elif name.strip() == b"Power reading state is" and words != [b"activated"]:
            return None
    return value if value is not None and 0 < value <= _MAX_WATTS else None


class Ipmitool:
    """The tool, run for each reading.

    Parameters
    ----------
    devices
        Device files by which the kernel lets programs talk to the controller; one that exists is enough.
    tool
        Name or path of the program.
    timeout
        Seconds after which it is killed.
    """

    def __init__(
        self, devices: Sequence[Path] = _DEVICES, tool: str = "ipmitool", timeout: float = _TIMEOUT_SECONDS
    ) -> None:
        self._devices = tuple(devices)
        self._tool = tool
        self._timeout = timeout
        self._lingering: subprocess.Popen[bytes] | None = None

    def check(self) -> None:
        """Raise `Unavailable` with what is missing: the device, the right to use it, or the tool."""
        device = next((device for device in self._devices if exists(device)), None)
        if device is None:
            raise Unavailable(
                Reason.NO_HARDWARE,
                f"no ACPI power meter and no {self._devices[0]}; load ipmi_devintf if the board has a management controller",
            )
        # As the effective user, or rights given by capability would not count.
        if not os.access(device, os.R_OK | os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise Unavailable(
                Reason.NO_PERMISSION,
                f"{device} may not be used; run as root or let the exporter's group read and write it",
            )
        if self._path() is None:
            raise Unavailable(
                Reason.MISSING_TOOL, f"{self._tool} is not installed; it asks {device} for the host's power"
            )

    def ask(self) -> bytes:
        """What the tool prints; takes until the timeout at most.

        Raises
        ------
        ReadError
            If it cannot be run, fails, or gives no answer in time. Then no other is started until it has ended.
        """
        if self._lingering is not None and self._lingering.poll() is None:
            raise ReadError(f"{self._tool} hangs in the kernel and cannot be killed; the controller's driver is stuck")
        self._lingering = None
        try:
            process = subprocess.Popen(  # noqa: S603  (no shell, and nobody's words among the arguments)
                [self._path() or self._tool, "dcmi", "power", "reading"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"LC_ALL": "C", "PATH": os.pathsep.join(_FOLDERS)},
            )
        except OSError as error:
            raise ReadError(f"{self._tool}: {error.strerror or error}") from error
        try:
            output, problem = process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired:
            self._end(process)
            raise ReadError(f"{self._tool} gave no answer within {self._timeout:g} s") from None
        if process.returncode != 0:
            text = parsing.text(problem) or f"ended with status {process.returncode}"
            raise ReadError(f"{self._tool}: {text}")
        return output

    def _path(self) -> str | None:
        return shutil.which(self._tool, path=os.pathsep.join((os.environ.get("PATH", ""), *_FOLDERS)))

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._lingering = process
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
