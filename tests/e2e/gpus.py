"""A simulated host with four GPUs, whose driver replays a recording: each of them is as sick as a test wants."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.e2e.simulated import SimulatedHost
from tests.exporter.nvml_hosts.gpu_host import kernel_files
from tests.nvml_shim.control import GPU_IS_LOST, Control, Fault
from tests.nvml_shim.recording import load
from tests.nvml_shim.shim_host import ShimHost

COUNT = 4


class HostWithGpus(SimulatedHost):
    """The quiet host of `SimulatedHost`, with the first four GPUs of a recorded one.

    Parameters
    ----------
    folder
        Where its kernel files and its driver's library are made.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "host")
        recording = load("h200")
        recording = {**recording, "devices": recording["devices"][:COUNT]}
        self.shim = ShimHost(recording, folder / "nvml")
        kernel_files(folder / "kernel", recording)
        for name in ("proc", "sys"):
            shutil.copytree(folder / "kernel" / name, self.folder / name, dirs_exist_ok=True)

    @property
    def control(self) -> Control:
        """Changes what the driver answers."""
        return self.shim.control

    @property
    def flags(self) -> tuple[str, ...]:
        """What makes an exporter read this host and its driver."""
        return (*super().flags, f"--nvml.library={self.shim.library}")

    def lose(self, gpu: int) -> None:
        """Let the driver say of every question about a GPU that it is lost."""
        self.control.inject(Fault(device=gpu, error=GPU_IS_LOST))

    def spend_spare_rows(self, gpu: int) -> None:
        """Let a GPU have an uncorrectable error that it has no spare memory row for."""
        rows = {"corrRows": 0, "uncRows": 1, "isPending": 0, "failureOccurred": 1}
        self.control.answer(gpu, "nvmlDeviceGetRemappedRows", rows)

    def heal(self) -> None:
        """Let the driver answer as it is recorded."""
        self.control.heal()
