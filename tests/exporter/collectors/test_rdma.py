from __future__ import annotations

import struct
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.collectors._rdma_netlink import parse_resources, read_resources
from hwsonde_exporter.collectors._rdma_tables import METRICS, ROWS
from hwsonde_exporter.collectors.rdma import RdmaCollector, parse_rate, parse_state
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import FileReader, Host, Paths
from tests.exporter.collectors.ethtool_kernel import attribute
from tests.exporter.collectors.hosts import HOSTS, fixture_host, values
from tests.exporter.collectors.mutations import collect
from tests.exporter.collectors.test_garbled import Garble, GarblingReader, garbles

ACTIVE = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}


FILES = sorted(
    {
        path.relative_to(HOSTS / "node192").as_posix()
        for path in (HOSTS / "node192/sys/class/infiniband").rglob("ports/**/*")
    }
    | {"/state", "/rate", "_data", "s", ""}
)


class BlockingReader(FileReader):
    """Hangs in the files of one device until it is let go."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.go_on = threading.Event()

    def read_once(self, path: Path | str) -> bytes:
        if f"/{self.device}/ports/" in str(path) and str(path).endswith("state"):
            self.go_on.wait(20)
        return super().read_once(path)


def tree(folder: Path, ports: dict[str, dict[str, str]]) -> Host:
    """Host with these ports (``device/number``), each with its files."""
    for port, files in ports.items():
        device, _, number = port.partition("/")
        for name, content in files.items():
            path = folder / "class/infiniband" / device / "ports" / number / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content + "\n")
    return Host(Paths(procfs=folder / "proc", sysfs=folder), FileReader())


def read(host: Host, **more: object) -> dict[tuple[str, ...], float]:
    """Values by name without its beginning and label values; no objects in use unless given."""
    collector = RdmaCollector(host, **({"resources": lambda _: {}} | more))  # type: ignore[arg-type]
    collector.probe()
    prefix = "hwsonde_network_rdma_"
    return {(key[0].removeprefix(prefix), *key[1:]): value for key, value in values(list(collector.collect())).items()}


@pytest.mark.parametrize(
    ("text", "speed", "lanes"),
    [
        (b"400 Gb/sec (4X NDR)\n", 50e9, 4),
        (b"2.5 Gb/sec (1X SDR)\n", 0.3125e9, 1),
        (b"100 Gb/sec\n", 12.5e9, None),
        (b"800 Gb/sec (8X NDR)", 100e9, 8),
        (b"0 Gb/sec (4X SDR)\n", None, None),
        (b"400 Gb/sec (99X NDR)\n", 50e9, None),
        (b"-1 Gb/sec (4X SDR)\n", None, None),
        (b"9999999999999 Gb/sec (4X SDR)\n", None, None),
        (b"unknown\n", None, None),
        (b"", None, None),
    ],
)
def test_parse_rate(text: bytes, speed: float | None, lanes: int | None) -> None:
    assert parse_rate(text) == (speed, lanes)


@given(st.binary(max_size=60))
def test_any_rate_and_state_is_a_number_or_nothing(data: bytes) -> None:
    speed, lanes = parse_rate(data)
    assert speed is None or 0 < speed < 1e14
    assert lanes is None or 0 < lanes <= 16
    assert parse_state(data) in {None, *range(16)}


def test_parse_state() -> None:
    assert parse_state(b"4: ACTIVE\n") == 4
    assert parse_state(b"5: LinkUp") == 5
    assert [parse_state(text) for text in (b"ACTIVE", b"", b"99: X", b"-1: X", b": ")] == [None] * 5


def test_rows_fit_their_metrics() -> None:
    for row in ROWS:
        assert len(row.labels) + 2 == len(row.metric.labels), row
    assert {row.metric for row in ROWS} == set(METRICS)
    files = [file for row in ROWS for file in row.files]
    assert len(files) == len(set(files)), "one file, one series"


def test_ports_of_the_node() -> None:
    answer = read(fixture_host("node192"))
    up = {key[1]: value for key, value in answer.items() if key[0] == "up"}
    assert up == {f"mlx5_{number}": int(number != 2) for number in range(8)}
    speed = {key[1]: value for key, value in answer.items() if key[0] == "speed_bytes_per_second"}
    assert (speed["mlx5_2"], speed["mlx5_5"], speed["mlx5_0"]) == (0, 25e9, 50e9)
    assert (answer["lanes", "mlx5_5", "1"], answer["lanes", "mlx5_0", "1"]) == (2, 4)
    assert ("lanes", "mlx5_2", "1") not in answer
    info = [key for key in answer if key[0] == "info"]
    assert info[0] == (
        "info", "mlx5_0", "1", "InfiniBand", "MT4129", "28.39.1002", "MT_0000000838", "ib0", "0000:3b:00.0", "0"
    )  # fmt: skip
    assert {key[7] for key in info if key[3] == "Ethernet"} == {f"ens1{number}np0" for number in range(4)}


def test_data_is_counted_in_words(tmp_path: Path) -> None:
    counters = {"counters/port_rcv_data": "25", "counters/port_xmit_data": "7", "counters/port_rcv_packets": "3"}
    answer = read(tree(tmp_path, {"mlx5_0/1": ACTIVE | counters}))
    assert answer["bytes_total", "mlx5_0", "1", "received"] == 100
    assert answer["bytes_total", "mlx5_0", "1", "transmitted"] == 28
    assert answer["packets_total", "mlx5_0", "1", "received"] == 3


@pytest.mark.parametrize(
    ("file", "most"),
    [
        ("port_xmit_wait", 2**32 - 1),
        ("symbol_error", 2**16 - 1),
        ("link_downed", 255),
        ("local_link_integrity_errors", 15),
        ("port_rcv_data", 2**32 - 1),
        ("port_xmit_packets", 2**64 - 1),
    ],
)
def test_a_counter_at_its_end_is_left_out_and_counted(tmp_path: Path, file: str, most: int) -> None:
    at_end = read(tree(tmp_path, {"mlx5_0/1": ACTIVE | {f"counters/{file}": str(most)}}))
    assert at_end["saturated_counters", "mlx5_0", "1"] == 1
    assert not [key for key in at_end if key[0].endswith("_total")]
    below = read(tree(tmp_path, {"mlx5_0/1": ACTIVE | {f"counters/{file}": str(most - 1)}}))
    assert below["saturated_counters", "mlx5_0", "1"] == 0
    assert [key for key in below if key[0].endswith("_total")]


def test_counters_of_64_bits_go_before_those_that_stand_still(tmp_path: Path) -> None:
    files = {"counters/port_rcv_data": str(2**32 - 1), "counters_ext/port_rcv_data_64": str(2**40)}
    answer = read(tree(tmp_path, {"mlx4_0/1": ACTIVE | files}))
    assert answer["bytes_total", "mlx4_0", "1", "received"] == 2**42
    assert answer["saturated_counters", "mlx4_0", "1"] == 0


def test_one_odd_file_or_port_loses_its_own_series_only(tmp_path: Path) -> None:
    host = tree(
        tmp_path,
        {
            "siw0/1": ACTIVE | {"counters/port_rcv_data": "N/A (no PMA)", "counters/port_xmit_data": "-22"},
            "mlx5_0/1": ACTIVE | {"rate": "garbage", "state": "?", "counters/port_xmit_data": "1"},
            "mlx5_0/2": ACTIVE | {"hw_counters/out_of_buffer": "9", "hw_counters/no_such_name": "1"},
            "mlx5_0/x": ACTIVE,
        },
    )
    (tmp_path / "class/infiniband/mlx5_0/ports/2/hw_counters/np_cnp_sent").mkdir()
    (tmp_path / "class/infiniband/abi_version").write_text("1\n")
    answer = read(host)
    assert answer["up", "siw0", "1"] == 1
    assert ("bytes_total", "siw0", "1", "received") not in answer
    assert ("up", "mlx5_0", "1") not in answer
    assert answer["physical_state", "mlx5_0", "1"] == 5
    assert ("speed_bytes_per_second", "mlx5_0", "1") not in answer
    assert answer["bytes_total", "mlx5_0", "1", "transmitted"] == 4
    assert answer["out_of_buffer_total", "mlx5_0", "2"] == 9
    assert not [key for key in answer if "x" in key[2:3]]
    assert not [key for key in answer if key[0] == "cnp_packets_total"]


@given(st.sampled_from(FILES), garbles)
@settings(max_examples=150, deadline=None)
def test_whatever_lies_in_the_files_the_answer_is_sound(name: str, garble: Garble) -> None:
    whole = read(fixture_host("node192"))
    host = fixture_host("node192", GarblingReader(name, garble))
    collector = RdmaCollector(host, resources=lambda _: {})
    collector.probe()
    collect(collector)
    # A file of one port changes nothing of the others.
    if "/ports/" in name:
        device = name.split("/")[3]
        answer = {key: value for key, value in read(host).items() if key[1] != device}
        assert answer == {key: value for key, value in whole.items() if key[1] != device}


def test_permission_denied_is_survived(tmp_path: Path) -> None:
    class Denied(FileReader):
        def read_once(self, path: Path | str) -> bytes:
            raise ReadError(f"{path}: Permission denied")

    host = tree(tmp_path, {"mlx5_0/1": ACTIVE | {"counters/port_xmit_data": "1"}})
    assert read(Host(host.paths, Denied())) == {}


@pytest.mark.parametrize(
    ("state", "physical", "speed"),
    [
        ("1: DOWN", "3: Disabled", 0),
        ("2: INIT", "5: LinkUp", 50e9),
        ("4: ACTIVE", "5: LinkUp", 50e9),
        ("1: DOWN", "5: LinkUp", 50e9),
        ("4: ACTIVE", "0: <unknown>", 50e9),
        ("1: DOWN", "0: <unknown>", 0),
        ("4: ACTIVE", "", 50e9),
    ],
)
def test_speed_is_0_without_a_link(tmp_path: Path, state: str, physical: str, speed: float) -> None:
    answer = read(tree(tmp_path, {"mlx5_0/1": ACTIVE | {"state": state, "phys_state": physical}}))
    assert answer["speed_bytes_per_second", "mlx5_0", "1"] == speed
    assert answer["up", "mlx5_0", "1"] == int(state.startswith("4"))


def test_efa(tmp_path: Path) -> None:
    counters = {
        "rx_bytes": 9, "tx_bytes": 8, "rx_pkts": 7, "tx_pkts": 6, "rx_drops": 5, "retrans_pkts": 4, "retrans_timeout_events": 3,
        "impaired_remote_conn_events": 2, "rdma_read_wr_err": 1, "rdma_read_bytes": 11, "send_wrs": 12, "lifespan": 10,
    }  # fmt: skip
    files = {f"hw_counters/{name}": str(value) for name, value in counters.items()}
    answer = read(tree(tmp_path, {"rdmap0s31/1": {"state": "4: ACTIVE", "rate": "100 Gb/sec"} | files}))
    device = ("rdmap0s31", "1")
    assert answer["bytes_total", *device, "received"] == 9
    assert answer["packets_total", *device, "transmitted"] == 6
    assert answer["receive_discards_total", *device] == 5
    assert answer["retransmitted_packets_total", *device] == 4
    assert answer["retries_total", *device, "ack_timeout"] == 3
    assert answer["remote_events_total", *device, "impaired"] == 2
    assert answer["completion_errors_total", *device, "requester", "read"] == 1
    assert answer["work_request_bytes_total", *device, "read"] == 11
    assert answer["work_requests_total", *device, "send"] == 12


def test_one_series_of_several_files_and_several_sources(tmp_path: Path) -> None:
    host = tree(
        tmp_path,
        {
            "irdma0/1": ACTIVE | {"hw_counters/ip4InOctets": "100", "hw_counters/ip6InOctets": "11"},
            # Counters of the specification go before the driver's own, which count less.
            "bnxt_re0/1": ACTIVE
            | {"hw_counters/rx_bytes": "5", "counters/port_rcv_data": "25", "hw_counters/rx_cnp_pkts": "3"},
        },
    )
    answer = read(host)
    assert answer["bytes_total", "irdma0", "1", "received"] == 111
    assert answer["bytes_total", "bnxt_re0", "1", "received"] == 100
    assert answer["cnp_packets_total", "bnxt_re0", "1", "received"] == 3
    # One half that cannot be read is not a whole.
    (tmp_path / "class/infiniband/irdma0/ports/1/hw_counters/ip6InOctets").write_text("?")
    assert ("bytes_total", "irdma0", "1", "received") not in read(host)


def test_devices_in_order_of_their_numbers_and_virtual_functions_last(tmp_path: Path) -> None:
    host = tree(tmp_path, {f"mlx5_{number}/1": ACTIVE for number in (10, 2, 1, 0)})
    (tmp_path / "class/infiniband/mlx5_1/device").mkdir()
    (tmp_path / "class/infiniband/mlx5_1/device/physfn").symlink_to("../mlx5_0")
    assert [key[1] for key in read(host) if key[0] == "up"] == ["mlx5_0", "mlx5_2", "mlx5_10", "mlx5_1"]


def test_network_device_by_its_port_where_no_address_tells(tmp_path: Path) -> None:
    host = tree(tmp_path, {"mlx4_0/2": ACTIVE})
    for name, port in (("eth1", "0"), ("eth2", "1"), ("eth3", "")):
        path = tmp_path / f"class/infiniband/mlx4_0/device/net/{name}/dev_port"
        path.parent.mkdir(parents=True)
        path.write_text(port)
    (info,) = [key for key in read(host) if key[0] == "info"]
    assert info[7] == "eth2"


def test_a_device_that_hangs_harms_no_other(tmp_path: Path) -> None:
    host = tree(tmp_path, {"mlx5_0/1": ACTIVE, "mlx5_1/1": ACTIVE})
    reader = BlockingReader("mlx5_1")
    collector = RdmaCollector(Host(host.paths, reader), resources=lambda _: {}, timeout=0.2)
    collector.probe()
    try:
        for _ in range(2):
            answer = values(list(collector.collect()))
            assert answer["hwsonde_network_rdma_stuck", "mlx5_1"] == 1
            assert answer["hwsonde_network_rdma_stuck", "mlx5_0"] == 0
            assert answer["hwsonde_network_rdma_up", "mlx5_0", "1"] == 1
            assert ("hwsonde_network_rdma_up", "mlx5_1", "1") not in answer
    finally:
        reader.go_on.set()
    for thread in collector._asker.hanging.values():
        thread.join(10)
    assert values(list(collector.collect()))["hwsonde_network_rdma_up", "mlx5_1", "1"] == 1


def test_a_device_that_vanishes_leaves_nothing(tmp_path: Path) -> None:
    host = tree(tmp_path, {"mlx5_0/1": ACTIVE | {"counters/port_rcv_data": "1"}})
    collector = RdmaCollector(host, resources=lambda _: {"mlx5_0": {"qp": 1}})
    collector.probe()
    assert list(collector.collect())
    (tmp_path / "class/infiniband/mlx5_0").rename(tmp_path / "gone")
    assert {sample.metric.name for sample in collector.collect()} == {"hwsonde_network_rdma_resources"}
    with pytest.raises(Unavailable) as caught:
        collector.probe()
    assert caught.value.reason is Reason.NO_HARDWARE
    assert list(collector.collect()) == []


def message(device: bytes, *entries: tuple[bytes, bytes]) -> memoryview:
    table = b"".join(attribute(0x8010, attribute(17, name) + attribute(18, count)) for name, count in entries)
    return memoryview(attribute(1, b"\1\0\0\0") + attribute(2, device) + attribute(0x800F, table))


def test_parse_resources() -> None:
    count = struct.Struct("=Q").pack
    found = parse_resources(
        [
            message(b"mlx5_0\0", (b"pd\0", count(3)), (b"qp\0", count(418)), (b"cq\0", b"\1"), (b"", count(1))),
            message(b"", (b"pd\0", count(3))),
            message(b"mlx5_1\0"),
            memoryview(b"odd"),
        ]
    )
    assert found == {"mlx5_0": {"pd": 3, "qp": 418}}


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_any_answer_gives_counts_or_nothing(messages: list[bytes]) -> None:
    for counts in parse_resources(map(memoryview, messages)).values():
        assert all(0 <= count < 2**64 for count in counts.values())


def test_objects_in_use_are_not_asked_for_again_until_the_next_probe(tmp_path: Path) -> None:
    asked = []

    def refuse(procfs: Path) -> dict[str, dict[str, int]]:
        asked.append(procfs)
        raise OSError(93, "Protocol not supported")

    collector = RdmaCollector(tree(tmp_path, {"mlx5_0/1": ACTIVE}), resources=refuse)
    collector.probe()
    for _ in range(3):
        assert list(collector.collect())
    assert asked == [tmp_path / "proc"]
    collector.probe()
    list(collector.collect())
    assert len(asked) == 2


def test_objects_in_use(tmp_path: Path) -> None:
    host = tree(tmp_path, {"mlx5_0/1": ACTIVE})
    answer = read(host, resources=lambda _: {"mlx5_0": {"qp": 40, "pd": 2}, "other": {"qp": 1}})
    assert {key: value for key, value in answer.items() if key[0] == "resources"} == {
        ("resources", "mlx5_0", "qp"): 40,
        ("resources", "mlx5_0", "pd"): 2,
    }


def test_the_kernel_is_asked_or_says_that_it_cannot() -> None:
    try:
        found = read_resources(Path("/proc"))
    except OSError:
        return  # no RDMA in this kernel
    assert set(found) == {path.name for path in Path("/sys/class/infiniband").glob("*")}
