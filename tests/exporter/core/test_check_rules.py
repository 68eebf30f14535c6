"""The rules of `check`, one by one, and the baseline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.baseline import COLLECTORS, MEASURES, Baseline, compare, dump, of, overrules, parse
from hwsonde_exporter.check_rules import RULES, Finding, Limits, Reading, Severity, ignored, judge
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.metric import Metric, Sample
from hwsonde_exporter.nvml.check_rules import GPU_RULES
from hwsonde_exporter.registry import load_collectors

METRICS: dict[str, Metric] = {metric.name: metric for kind in load_collectors().values() for metric in kind.metrics}


def sample(name: str, number: float, /, **labels: str) -> Sample:
    """Sample of a real metric; labels that are not given are empty."""
    metric = METRICS[f"hwsonde_{name}"]
    assert labels.keys() <= set(metric.labels), metric.labels
    return Sample(metric, tuple(labels.get(label, "") for label in metric.labels), number)


LIMITS = Limits()


def setting(name: str, value: str, device: str = "") -> Sample:
    return sample("setting_info", 1, setting=name, device=device, value=value)


def filesystem(place: str, free: float, fstype: str = "ext4", *, readonly: int = 0) -> list[Sample]:
    labels = {"mountpoint": place, "device": "/dev/sda1", "fstype": fstype}
    return [
        sample("storage_filesystem_size_bytes", 1000, **labels),
        sample("storage_filesystem_available_bytes", free, **labels),
        sample("storage_filesystem_readonly", readonly, **labels),
        sample("storage_filesystem_stuck", 0, **labels),
    ]


def rdma(
    device: str, gigabits: float, lanes: int, *, up: int = 1, physical: int = 5, kind: str = "MT4129"
) -> list[Sample]:
    port = {"device": device, "port": "1"}
    return [
        sample("network_rdma_info", 1, **port, hca_type=kind, board_id="X", link_layer="InfiniBand"),
        sample("network_rdma_up", up, **port),
        sample("network_rdma_physical_state", physical, **port),
        sample("network_rdma_speed_bytes_per_second", gigabits * 1e9 / 8 if up else 0, **port),
        *([sample("network_rdma_lanes", lanes, **port)] if up else []),
    ]


def pcie(
    device: str, lanes: int, speed: float, kind: str = "nvme", most: tuple[int, float] = (4, 16.0)
) -> list[Sample]:
    labels = {"device": device, "class": kind}
    return [
        sample("pcie_link_width_lanes", lanes, **labels),
        sample("pcie_link_max_width_lanes", most[0], **labels),
        sample("pcie_link_speed_transfers_per_second", speed * 1e9, **labels),
        sample("pcie_link_max_speed_transfers_per_second", most[1] * 1e9, **labels),
    ]


HEALTHY = [
    sample("storage_nvme_critical_warning", 0, device="nvme0", condition="available_spare"),
    sample("storage_nvme_live", 1, device="nvme0"),
    sample("storage_nvme_stuck", 0, device="nvme0"),
    sample("storage_nvme_smart_available", 1, device="nvme0"),
    sample("storage_scsi_running", 1, device="sda"),
    sample("storage_md_degraded_devices", 0, device="md0"),
    sample("storage_md_members", 0, device="md0", state="failed"),
    sample("storage_md_members", 4, device="md0", state="active"),
    sample("storage_zfs_pool_state", 1, pool="tank", state="online"),
    sample("storage_zfs_pool_state", 0, pool="tank", state="degraded"),
    *filesystem("/", 500),
    setting("mount.access", "rw", "/"),
    setting("mount.access", "ro", "/opt"),
    sample("network_bond_member_up", 1, device="bond0", member="eth0"),
    *rdma("mlx5_0", 400, 4), *rdma("mlx5_1", 400, 4),
    *rdma("mlx5_8", 100, 1, kind="MT4125"),
    *pcie("0000:41:00.0", 4, 16.0),
    *pcie("0000:3a:00.0", 16, 2.5, "gpu", (16, 32.0)),
    sample("memory_edac_errors_total", 0, controller="mc0", type="uncorrected"),
    sample("memory_edac_errors_total", 9, controller="mc0", type="corrected"),
    sample("memory_hardware_corrupted_bytes", 0),
    sample("cpu_machine_check_exceptions_total", 0),
    sample("host_clock_synchronized", 1),
    sample("cpu_online", 192),
    sample("memory_size_bytes", 2 * 2**40),
    sample("network_speed_bytes_per_second", 25e9, device="eth0"),
    sample("storage_device_size_bytes", 3840e9, device="nvme0n1"),
    setting("cpu.governor", "performance"),
    setting("network.mtu_bytes", "9000", "eth0"),
]  # fmt: skip

FAULTS: dict[str, tuple[list[Sample], list[tuple[str, str]]]] = {
    "worn disk": (
        [sample("storage_nvme_critical_warning", 1, device="nvme1", condition="available_spare"),
         sample("storage_nvme_critical_warning", 1, device="nvme1", condition="reliability")],
        [("nvme_warning", "nvme1")],
    ),
    "hot disk": (
        [sample("storage_nvme_critical_warning", 1, device="nvme1", condition="temperature")], [("nvme_warning", "nvme1")]
    ),
    "hanging disk": ([sample("storage_nvme_stuck", 1, device="nvme1")], [("disk_silent", "nvme1")]),
    "hanging array": ([sample("storage_md_stuck", 1, device="md1")], [("disk_silent", "md1")]),
    "dead controller": ([sample("storage_nvme_live", 0, device="nvme1")], [("disk_dead", "nvme1")]),
    "offline disk": ([sample("storage_scsi_running", 0, device="sdb")], [("disk_dead", "sdb")]),
    "degraded array": ([sample("storage_md_degraded_devices", 1, device="md1")], [("raid_degraded", "md1")]),
    "failed member": ([sample("storage_md_members", 1, device="md1", state="failed")], [("raid_degraded", "md1")]),
    "degraded pool": ([sample("storage_zfs_pool_state", 1, pool="p", state="degraded")], [("raid_degraded", "p")]),
    "dead server": (
        [sample("storage_filesystem_stuck", 1, mountpoint="/home", device="filer:/home", fstype="nfs4")],
        [("filesystem_stuck", "/home")],
    ),
    "error on a disk": ([setting("mount.access", "forced ro", "/scratch")], [("filesystem_read_only", "/scratch")]),
    "errors on a disk": (
        [sample("storage_filesystem_errors_total", 3, device="sda1", fstype="ext4")], [("filesystem_errors", "sda1")]
    ),
    "full disk": (filesystem("/scratch", 10), [("filesystem_full", "/scratch")]),
    "torn cable": (
        [sample("network_bond_member_up", 0, device="bond0", member="eth1")], [("bond_member_down", "eth1")]
    ),
    "port down": (rdma("mlx5_2", 0, 0, up=0, physical=2), [("rdma_down", "mlx5_2/1")]),
    "slow port": (rdma("mlx5_2", 200, 4), [("rdma_slow", "mlx5_2/1")]),
    "half a cable": (rdma("mlx5_2", 400, 2), [("rdma_slow", "mlx5_2/1")]),
    "hanging adapter": ([sample("network_rdma_stuck", 1, device="mlx5_2")], [("rdma_silent", "mlx5_2")]),
    "loose GPU": (pcie("0000:3c:00.0", 8, 2.5, "gpu", (16, 32.0)), [("pcie_narrow", "0000:3c:00.0")]),
    "loose disk": (pcie("0000:42:00.0", 4, 8.0), [("pcie_slow", "0000:42:00.0")]),
    "bad module": (
        [sample("memory_edac_dimm_errors_total", 2, controller="mc1", dimm="dimm0", label="CPU1_DIMM_A1", type="uncorrected"),
         sample("memory_edac_errors_total", 2, controller="mc1", type="uncorrected")],
        [("memory_errors", "CPU1_DIMM_A1")],
    ),
    "bad memory": (
        [sample("memory_edac_errors_total", 2, controller="mc1", type="uncorrected")], [("memory_errors", "mc1")]
    ),
    "bad pages": ([sample("memory_hardware_corrupted_bytes", 4096)], [("memory_errors", "")]),
    "machine check": ([sample("cpu_machine_check_exceptions_total", 1)], [("machine_checks", "")]),
    "no time service": ([sample("host_clock_synchronized", 0)], [("clock_free", "")]),
}  # fmt: skip


def found(samples: list[Sample], limits: Limits = LIMITS) -> list[tuple[str, str]]:
    return [(finding.rule, finding.subject) for finding in judge(Reading(samples), limits)]


def test_a_healthy_host_has_no_findings() -> None:
    assert found(HEALTHY) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_nothing_else(fault: str) -> None:
    samples, expected = FAULTS[fault]
    assert found(HEALTHY + samples) == expected
    for finding in judge(Reading(HEALTHY + samples)):
        assert finding.severity is Severity.UNHEALTHY
        assert "\n" not in finding.line
        assert finding.line.startswith(f"unhealthy: {finding.rule}: ")


def test_every_rule_is_tried_here() -> None:
    tried = {rule for _, expected in FAULTS.values() for rule, _ in expected} | {"nvme_unread"}
    # Those of GPUs are tried in tests/exporter/xid, on answers of the driver.
    assert tried == {rule.name for rule in RULES} - {rule.name for rule in GPU_RULES}


def test_rules_and_measures_name_collectors_that_give_their_metrics() -> None:
    kinds = load_collectors()
    for rule in RULES:
        assert set(rule.collectors) <= kinds.keys(), rule.name
    for measure in MEASURES:
        assert measure.metric in {metric.name for metric in kinds[measure.collector].metrics}, measure.name
        assert set(measure.labels) <= set(METRICS[measure.metric].labels)
    assert set(COLLECTORS) <= kinds.keys()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_needs_no_collector_but_its_own(rule: object) -> None:
    """A rule that looked at a metric of another collector would find nothing where only its own run."""
    own = {metric.name for name in rule.collectors for metric in load_collectors()[name].metrics}  # type: ignore[attr-defined]
    for samples, expected in FAULTS.values():
        if any(name == rule.name for name, _ in expected):  # type: ignore[attr-defined]
            kept = [one for one in HEALTHY + samples if one.metric.name in own]
            assert judge(Reading(kept), rules=[rule]) == judge(Reading(HEALTHY + samples), rules=[rule])  # type: ignore[list-item]


def test_what_is_no_fault() -> None:
    assert found(rdma("mlx5_2", 0, 0, up=0, physical=3)) == [], "a port that somebody has switched off"
    assert found(pcie("0000:3a:00.0", 16, 2.5, "gpu", (16, 32.0))) == [], "a GPU that is idle"
    assert found(filesystem("/mnt", 0, "nfs4")) == [], "a file server that is full"
    assert found(filesystem("/iso", 0, readonly=1)) == []
    assert found(filesystem("/", 100), Limits(0.2)) == [("filesystem_full", "/")]
    assert judge(Reading([])) == []


def test_buckets_of_a_histogram_are_read_with_their_bounds() -> None:
    """As the driver's call times are: each has a label more than its metric."""
    calls = METRICS["hwsonde_gpu_nvml_call_seconds"]
    samples = [Sample(calls, ("memory", bound), 1, "_bucket") for bound in calls.bounds]
    found = Reading([*samples, Sample(calls, ("memory",), 0.1, "_sum"), Sample(calls, ("memory",), 1, "_count")])
    assert {row.get("le") for row, _ in found.rows(calls.name)} == {None, *calls.bounds}


def test_what_may_not_be_read_is_unknown() -> None:
    samples = [sample("storage_nvme_smart_available", 0, device="nvme0", reason="no_permission")]
    assert [(finding.severity, finding.rule) for finding in judge(Reading(samples))] == [
        (Severity.UNKNOWN, "nvme_unread")
    ]
    assert judge(Reading([sample("storage_nvme_smart_available", 0, device="nvme0", reason="not_supported")])) == []


def test_findings_can_be_passed_over() -> None:
    finding = Finding(Severity.UNHEALTHY, "rdma_down", "mlx5_2/1", "is down")
    for pattern in ("rdma_down", "rdma_*", "rdma_down:mlx5_2/1", "rdma_down:mlx5_2*", "*:mlx5_?/1"):
        assert ignored(finding, [pattern]), pattern
    named = Finding(Severity.UNHEALTHY, "setting", "network.mtu_bytes[eth0]", "is '9000'")
    assert ignored(named, ["setting:network.mtu_bytes[eth0]"])
    for pattern in ("rdma", "rdma_slow", "rdma_down:mlx5_3/1", "rdma_down:"):
        assert not ignored(finding, [pattern]), pattern


# ---- baseline ------------------------------------------------------------------------------------------------------

GOOD = of(Reading(HEALTHY))


def differing(samples: list[Sample], wanted: Baseline = GOOD) -> list[tuple[str, str, str]]:
    return [(finding.severity.value, finding.rule, finding.subject) for finding in compare(wanted, Reading(samples))]


def without(name: str, device: str = "") -> list[Sample]:
    return [one for one in HEALTHY if one.metric.name != f"hwsonde_{name}" or (device and device not in one.labels)]


def test_a_host_is_as_its_own_baseline() -> None:
    assert differing(HEALTHY) == []


def test_a_baseline_survives_being_written_and_read() -> None:
    wanted = replace(GOOD, ignore=("rdma_down:mlx5_2/1",), settings={**GOOD.settings, ("cpu.boost", ""): ("on", "off")})
    assert parse(dump(wanted).encode(), "b.yaml") == wanted


@given(st.dictionaries(st.tuples(st.text(min_size=1), st.text()), st.text(), max_size=5))
def test_any_setting_survives_being_written_and_read(settings: dict[tuple[str, str], str]) -> None:
    names = {setting for setting, device in settings if not device}
    sound = {key: (value,) for key, value in settings.items() if not key[1] or key[0] in names}
    sound = {key: value for key, value in sound.items() if not key[1] or key[0] not in names}
    printable = {key: value for key, value in sound.items() if all(map(str.isprintable, (*key, *value)))}
    assert parse(dump(Baseline(printable)).encode(), "b.yaml").settings == printable


def test_settings_that_differ() -> None:
    changed = [one for one in HEALTHY if "performance" not in one.labels] + [setting("cpu.governor", "powersave")]
    assert differing(changed) == [("unhealthy", "setting", "cpu.governor")]
    assert differing(changed, replace(GOOD, settings={("cpu.governor", ""): ("performance", "powersave")})) == []


def test_a_filesystem_that_is_not_mounted() -> None:
    unmounted = [one for one in HEALTHY if "/opt" not in one.labels]
    assert differing(unmounted) == [("unhealthy", "setting", "mount.access[/opt]")]


def test_parameters_and_modules_that_are_not_there() -> None:
    missing = {
        ("kernel.parameter.iommu", ""): ("pt",),
        ("module.nvidia", ""): ("550",),
        ("mount.options", "/gone"): ("ext4",),
    }
    wanted = replace(GOOD, settings=missing)
    seen = [*HEALTHY, setting("kernel.parameters_digest", "0"), setting("module.nvme", "loaded")]
    assert differing(seen, wanted) == [
        ("unhealthy", "setting", "kernel.parameter.iommu"),
        ("unhealthy", "setting", "module.nvidia"),
    ]
    assert differing(HEALTHY, wanted) == [("unknown", "setting", "")], "nothing is known without the files"


def test_settings_that_cannot_be_read_are_one_unknown() -> None:
    wanted = replace(
        GOOD, settings={**GOOD.settings, **{("pcie.access_control", f"0000:{n:02x}:00.0"): ("off",) for n in range(9)}}
    )
    (finding,) = compare(wanted, Reading(HEALTHY))
    assert finding.severity is Severity.UNKNOWN
    assert "and 6 more" in finding.text


def test_devices_that_are_missing_or_slow() -> None:
    gone = [one for one in HEALTHY if "nvme0n1" not in one.labels]
    assert differing(gone) == [("unhealthy", "expected_disk_bytes", "nvme0n1")]
    slow = [
        *without("network_speed_bytes_per_second"),
        sample("network_speed_bytes_per_second", 1250000000.0, device="eth0"),
    ]
    assert differing(slow) == [("unhealthy", "expected_network_bytes_per_second", "eth0")]
    assert differing(without("network_speed_bytes_per_second")) == [
        ("unhealthy", "expected_network_bytes_per_second", "eth0")
    ]
    fewer = [*without("cpu_online"), sample("cpu_online", 190)]
    assert differing(fewer) == [("unhealthy", "expected_cpus", "cpus")]
    faster = [
        *without("network_speed_bytes_per_second"),
        sample("network_speed_bytes_per_second", 50000000000.0, device="eth0"),
    ]
    assert differing(faster) == []


def test_memory_may_differ_a_little() -> None:
    for share, expected in ((0.99, []), (0.97, [("unhealthy", "expected_memory_bytes", "memory_bytes")])):
        samples = [*without("memory_size_bytes"), sample("memory_size_bytes", share * 2 * 2**40)]
        assert differing(samples) == expected


def test_of_collectors_that_did_not_answer_nothing_is_said() -> None:
    assert list(compare(GOOD, Reading([]), {measure.collector for measure in MEASURES} | {"settings"})) == []


def test_links_that_are_down_are_no_part_of_a_baseline() -> None:
    wanted = of(Reading(rdma("mlx5_0", 400, 4) + rdma("mlx5_9", 0, 0, up=0, physical=2)))
    assert {device for _, device in wanted.expected} == {"mlx5_0/1"}


def test_disks_that_come_and_go_are_no_part_of_a_baseline() -> None:
    disks = [sample("storage_device_size_bytes", 9, device=name) for name in ("loop3", "dm-0", "zram0", "sda", "md0")]
    assert {device for _, device in of(Reading(disks)).expected} == {"sda", "md0"}


def test_the_baseline_knows_better_than_the_rules() -> None:
    unused = Finding(Severity.UNHEALTHY, "rdma_down", "mlx5_9/1", "is down")
    used = unused._replace(subject="mlx5_0/1")
    assert overrules(GOOD, unused)
    assert not overrules(GOOD, used)
    assert not overrules(Baseline(), unused)
    slot = Finding(Severity.UNHEALTHY, "pcie_narrow", "0000:41:00.0", "uses 2 of 4")
    assert overrules(GOOD, slot)
    assert not overrules(GOOD, slot._replace(subject="0000:99:00.0"))
    assert not overrules(GOOD, Finding(Severity.UNHEALTHY, "machine_checks", "", "1"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "b.yaml:1: empty; make one with hwsonde-exporter check --write-baseline b.yaml"),
        ("settings: {}\n", "b.yaml:1: version: must be 1; make the file anew with --write-baseline"),
        ("version: 2\n", "b.yaml:1: version: must be 1; make the file anew with --write-baseline"),
        ("version: 1\nsettigns: {}\n", "b.yaml:2: settigns: unknown key; did you mean settings?"),
        (
            "version: 1\nexpected: {cpus: many}\n",
            "b.yaml:2: expected.cpus: 'many' is not allowed; allowed: a number from 0",
        ),
        ("version: 1\nexpected:\n  cpu: 3\n", "b.yaml:3: expected.cpu: unknown key; did you mean expected.cpus?"),
        ("version: 1\nsettings: {a: {b: {c: d}}}\n", "b.yaml:2: settings.a: must be one value"),
        ("version: 1\nsettings: [1]\n", "b.yaml:2: settings.: must be a mapping"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text.encode(), "b.yaml")
    assert str(caught.value).replace("settings: must", "settings.: must") == message


@given(
    st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: f"version: 1\nsettings: {text}".encode()))
)
def test_any_file_is_a_baseline_or_a_mistake(text: bytes) -> None:
    try:
        wanted = parse(text, "b.yaml")
    except ConfigError:
        return
    assert len(list(compare(wanted, Reading(HEALTHY)))) <= len(wanted.settings) + len(wanted.expected) + 1
    assert dump(wanted)
