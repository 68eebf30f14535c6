"""What each recorded GPU host gives, compared with what is committed; how much that is; and what promtool says of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.exporter.collectors.hosts import fixture_host, samples_of
from tests.exporter.nvml_hosts.gpu_host import GPU_KINDS, GpuHost, Series, of, one, running, sound
from tests.nvml_shim.recording import names

TIME = 21.3
GOLDEN = Path(__file__).with_name("golden")
# Neither this machine's log nor what depends on how often something was asked.
KINDS = tuple(name for name in GPU_KINDS if name != "gpu_xid")
_PASSING = re.compile(r"hwsonde_(exporter_|gpu_nvml_(call_seconds|errors_total|restarts_total|state|skipped))")
# All links of a GPU say much the same; these are a plain one, and those that ail on the sick host.
_LINK = re.compile(r'link="(?!(0|3|11)")\d+"')
each_host = pytest.mark.parametrize("name", names())


def base(name: str) -> str | None:
    """Whose kernel files the host has."""
    return "node192" if name == "h200" else None


def complete(name: str, host: GpuHost) -> str:
    """A scrape with everything that the host can give."""

    def ready(series: Series) -> bool:
        if name == "sick" and one(series, "hwsonde_gpu_nvml_skipped", gpu="4", call="*") != 1:
            return False
        if name != "sick" and not sound(series):
            return False
        needs_time = name in {"h200", "sick"}  # two looks at the hardware counters
        return not needs_time or bool(of(series, "hwsonde_gpu_sm_active_ratio", gpu="0"))

    host.wait(ready, anew=True)
    return host.text()


@each_host
def test_output_is_as_committed(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with running(name, tmp_path, fixed=TIME, kinds=KINDS, base=base(name)) as host:
        lines = complete(name, host).splitlines()
    dropped = {line.split()[2] for line in lines if line.startswith("# TYPE ") and _PASSING.match(line.split()[2])}
    kept = [
        line
        for line in lines
        if not _PASSING.match(line)
        and not _LINK.search(line)
        and not (line.startswith("# ") and line.split()[2] in dropped)
    ]
    file = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text("\n".join(kept) + "\n")
    assert kept == file.read_text().splitlines(), "run pytest with --update-golden if this is right"


@each_host
def test_promtool_has_nothing_to_say(name: str, tmp_path: Path) -> None:
    with running(name, tmp_path, fixed=TIME, base=base(name)) as host:
        text = complete(name, host)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text.encode(), capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_a_gpu_host_gives_a_hundred_and_fifty_types_and_seven_hundred_series(tmp_path: Path) -> None:
    with running("h200", tmp_path, base="node192") as host:
        complete("h200", host)
        gpu = host.series()
    rest = [
        sample
        for name, samples in samples_of(fixture_host("node192")).items()
        if name not in GPU_KINDS
        for sample in samples
    ]
    types = {name for name, _ in gpu} | {sample.metric.name for sample in rest}
    assert len({name for name, _ in gpu if name.startswith("hwsonde_gpu_")}) >= 60
    assert len(types) >= 150
    assert len(gpu) + len(rest) >= 700
