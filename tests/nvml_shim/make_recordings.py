"""Makes recordings/*.json: hosts made up from public knowledge of their boards, physically consistent.

    python -m tests.nvml_shim.make_recordings

A real host's recording comes from hwsonde_exporter.nvml.record and has the same form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.nvml_shim.boards import Calls
from tests.nvml_shim.hosts_h200 import h200_host, sick_host
from tests.nvml_shim.hosts_others import a100_host, old_host, workstation_host
from tests.nvml_shim.recording import RECORDINGS

HOSTS = {
    "h200": h200_host, "sick": sick_host, "a100-mig": a100_host, "workstation": workstation_host, "old-driver": old_host,
}  # fmt: skip


def text(recording: Mapping[str, Any]) -> str:
    """JSON with one call a line, for people who compare."""

    def calls(found: Calls, indent: str) -> str:
        rows = ",\n".join(f"{indent} {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
        return f"{{\n{rows}\n{indent}}}"

    def device(found: Mapping[str, Any]) -> str:
        parts = [f'"calls": {calls(found["calls"], "  ")}']
        if "mig" in found:
            parts.append(f'"mig": [{", ".join(device(one) for one in found["mig"])}]')
        parts += [f'"{mode}": {calls(found[mode], "  ")}' for mode in ("mig_off", "mig_on") if mode in found]
        return "{" + ", ".join(parts) + "}"

    devices = ",\n  ".join(device(one) for one in recording["devices"])
    rest = {key: value for key, value in recording.items() if key not in {"system", "devices"}}
    head = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in rest.items())
    return f'{{\n{head},\n "system": {calls(recording["system"], " ")},\n "devices": [\n  {devices}\n ]\n}}\n'


def main(folder: Path = RECORDINGS) -> None:
    """Write every recording."""
    folder.mkdir(exist_ok=True)
    for name, make in HOSTS.items():
        (folder / f"{name}.json").write_text(text(make()))


if __name__ == "__main__":
    main()
