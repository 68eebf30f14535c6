"""The comparison of peers against slow, obvious twins and hand-made truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_detector.detectors.peers import (
    HOSTS,
    PARTS,
    History,
    beyond_others,
    compare,
    family,
    fit_cells,
    lay_out,
    loudest,
)
from hwsonde_detector.types import Channel, Device, Entity, Subsystem
from tests.detector.detectors import naive_peers as naive


def entity(number: int) -> Entity:
    return Entity((("node", f"n{number}"),))


def channel(name: str, *, device: Device | None = None, logarithmic: bool = False, weight: float = 1.0) -> Channel:
    return Channel(name, Subsystem.GPU, device, floor=0.5, logarithmic=logarithmic, weight=weight)


def gpu(name: str, number: int) -> Channel:
    return channel(f"{name}{{gpu={number}}}", device=Device("gpu", str(number)))


@pytest.mark.parametrize(
    ("kind", "name", "text", "found"),
    [
        ("gpu", "3", "heat{gpu=3,sensor=3}", "gpu heat{gpu=*,sensor=3}"),
        ("gpu", "GPU-ab", "heat{uuid=GPU-ab}", "gpu heat{uuid=*}"),
        ("disk", "nvme10n1", "busy{device=nvme10n1}", "disk nvme#n# busy{device=*}"),
        ("rdma", "mlx5_0", "bytes{device=mlx5_0,port=1}", "rdma mlx#_# bytes{device=*,port=1}"),
        ("nic", "eth1", "bytes{device=eth10}", None),
        ("nic", 'a "b"', 'bytes{device="a \\"b\\""}', 'nic a "b" bytes{device=*}'),
        ("nic", "veth12ab", "bytes{device=veth12ab}", None),
        ("nic", "lo", "bytes{device=lo}", None),
        ("nic", "lon1", "bytes{device=lon1}", "nic lon# bytes{device=*}"),
        ("disk", "dm-0", "busy{device=dm-0}", None),
        ("filesystem", "/a", "full{mountpoint=/a}", None),
    ],
)
def test_parts_of_a_kind_have_one_family(kind: str, name: str, text: str, found: str | None) -> None:
    assert family(channel(text, device=Device(kind, name))) == found


def test_a_channel_of_the_whole_host_has_no_family() -> None:
    assert family(channel("cpu")) is None


def test_cells_are_what_enough_hosts_or_parts_have() -> None:
    common, rare, idle = channel("common"), channel("rare"), channel("idle", weight=0.0)
    cards = tuple(gpu("heat", number) for number in range(4))
    hosts = [(entity(1), (common, *cards, idle)), (entity(2), (common, rare)), (entity(3), (common,))]
    cells = lay_out(hosts, 3)
    assert [(host, name, kind) for host, name, kind in cells.names if kind == HOSTS] == [
        (entity(number), "common", HOSTS) for number in (1, 2, 3)
    ]
    assert [name for _, name, kind in cells.names if kind == PARTS] == [card.name for card in cards]
    assert cells.spans.tolist() == [0, 5, 6, 7]
    assert [cells.channel(cell).name for cell in range(7)] == [name for _, name, _ in cells.names]
    assert lay_out(hosts, 5).names == ()
    assert lay_out((), 4).names == ()


def test_a_channel_with_both_comparisons_counts_once() -> None:
    cards = tuple(gpu("heat", number) for number in range(4))
    cells = lay_out([(entity(number), cards) for number in range(4)], 4)
    assert len(cells.names) == 32
    assert len(cells.starts) == 16
    assert cells.channel_spans.tolist() == [0, 4, 8, 12, 16]


values = st.one_of(st.floats(-1e3, 1e3), st.sampled_from([float("nan"), float("inf"), 0.0, 5.0]))


@given(
    st.lists(st.lists(values, min_size=2, max_size=9), min_size=1, max_size=4),
    st.integers(2, 5),
    st.booleans(),
    st.sampled_from([0.0, 0.1, 30.0]),
)
@settings(max_examples=200, deadline=None)
def test_compare_equals_its_twin(table: list[list[float]], minimum: int, logarithmic: bool, usual: float) -> None:
    width = max(map(len, table))
    channels = tuple(channel(f"c{index}", logarithmic=logarithmic) for index in range(len(table)))
    hosts = [
        (entity(number), tuple(one for one, row in zip(channels, table, strict=True) if number < len(row)))
        for number in range(width)
    ]
    cells = lay_out(hosts, minimum)
    rows = [np.array([row[number] for row in table if number < len(row)], np.float64) for number in range(width)]
    found = compare(cells.row(rows), cells, minimum, np.full(len(cells.names), usual))
    for index, row in enumerate(table):
        wanted = naive.deviations(
            {str(entity(place)): value for place, value in enumerate(row)}, 0.5, minimum, logarithmic, usual
        )
        for place in range(len(row)):
            name = (entity(place), f"c{index}", HOSTS)
            if name in cells.names:
                at = cells.names.index(name)
                np.testing.assert_allclose(found.deviation[at], wanted[str(entity(place))], rtol=1e-9, atol=1e-9)
            else:
                assert len(row) < minimum


def test_one_host_far_off_is_far_and_the_others_are_not() -> None:
    cells = lay_out([(entity(number), (channel("c"),)) for number in range(8)], 4)
    found = compare(np.array([10.0, 10.4, 9.8, 40.0, 10.1, 9.9, 10.2, 9.7]), cells, 4)
    assert found.deviation[3] > 40
    assert np.abs(np.delete(found.deviation, 3)).max() < 3
    np.testing.assert_allclose(found.middle, 10.05)


def test_equal_values_are_no_distance_and_the_floor_is_the_least_spread() -> None:
    cells = lay_out([(entity(number), (channel("c"),)) for number in range(4)], 4)
    assert compare(np.full(4, 7.0), cells, 4).deviation.tolist() == [0.0] * 4
    assert compare(np.array([7.0, 7.0, 7.0, 8.0]), cells, 4).deviation.tolist() == [0.0, 0.0, 0.0, 2.0]


def test_the_values_given_are_not_changed() -> None:
    cells = lay_out([(entity(number), (channel("c", logarithmic=True),)) for number in range(4)], 4)
    given_values = np.array([1.0, np.inf, 3.0, np.nan])
    compare(given_values, cells, 2)
    np.testing.assert_array_equal(given_values, [1.0, np.inf, 3.0, np.nan])


@given(st.lists(st.lists(values, min_size=30, max_size=30), min_size=1, max_size=4), st.integers(0, 30))
@settings(max_examples=100, deadline=None)
def test_fit_equals_its_twin(columns: list[list[float]], unknown: int) -> None:
    rows = np.clip(np.array(columns, np.float64).T, -1e6, 1e6)
    rows[:unknown, 0] = np.nan
    found = fit_cells(rows)
    for index in range(rows.shape[1]):
        past = rows[:, index].tolist()
        centre, usual, excess = naive.tail(past)
        got = (found.own.centre[index], found.own.usual[index], found.own.excess[index])
        np.testing.assert_allclose(got, (centre, usual, excess), rtol=1e-9)
        known = [value for value in past if value == value]  # noqa: PLR0124  NaN
        np.testing.assert_allclose(found.far[:, index], naive.distance(known, 0.0), rtol=1e-9)


def test_without_a_past_nothing_is_judged() -> None:
    tails = fit_cells(np.zeros((0, 3)))
    assert tails.own.surprise(np.array([[1e6, -1e6, 0.0]])).max() < 1e-20


@given(st.lists(st.floats(1, 50), min_size=3, max_size=8), st.integers(2, 5), st.integers(0, 7))
@settings(max_examples=100, deadline=None)
def test_beyond_others_is_the_widest_of_the_others(usual: list[float], minimum: int, unknown: int) -> None:
    cells = lay_out([(entity(number), (channel("c"),)) for number in range(len(usual))], minimum)
    if not cells.names:
        return
    far = np.array([usual, [value / 2 for value in usual]])
    far[:, unknown % len(usual)] = 1e30
    found = beyond_others(far, cells, minimum)
    for place in range(len(usual)):
        others = [value for other, value in enumerate(far[0].tolist()) if other != place and value < 1e30]
        wanted = max(others) if len(others) >= minimum - 1 else 1e30
        assert found.usual[place] == wanted
        assert found.excess[place] == (wanted / 2 if wanted < 1e30 else 1e30)
    assert not found.centre.any()


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_loudest_equals_its_twin(sizes: list[int], seed: int) -> None:
    strength = np.random.default_rng(seed).random((2, sum(sizes)))
    starts = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
    found = loudest(strength, starts)
    for row in range(2):
        channels = {
            str(begin): strength[row, begin : begin + size].tolist() for begin, size in zip(starts, sizes, strict=True)
        }
        assert found[row] == pytest.approx(naive.loudest(channels))
    assert loudest(strength[:, :0], starts[:0]).tolist() == [0.0, 0.0]


def test_history_thins_out_and_keeps_its_order() -> None:
    history = History(1)
    for moment in range(20_000):
        history.add(np.array([float(moment)]))
        assert history.count <= History.LIMIT
        if moment == History.LIMIT - 1:
            assert history.rows[:, 0].tolist() == list(range(History.LIMIT))
    kept = history.rows[:, 0]
    assert (np.diff(kept) > 0).all()
    assert history.stride == History.SPARSEST
    assert kept[-1] > 20_000 - 2 * History.SPARSEST
    assert kept[-1] - kept[0] > 0.5 * History.LIMIT * History.SPARSEST


def test_history_moves_with_its_cells_and_comes_back() -> None:
    a, b, c = ((entity(1), name, HOSTS) for name in "abc")
    history = History(2)
    for moment in range(5):
        history.add(np.array([moment, np.nan]))
    moved = history.moved((a, b), (c, a))
    assert np.isnan(moved.rows[:, 0]).all()
    assert moved.rows[:, 1].tolist() == [0, 1, 2, 3, 4]
    again = History.of(moved.rows.copy(), moved.stride, moved.waited)
    np.testing.assert_array_equal(again.rows, moved.rows)
    for bad in (np.zeros((History.LIMIT + 1, 2), np.float32), np.zeros(3, np.float32)):
        with pytest.raises(ValueError, match="another shape"):
            History.of(bad, 1, 0)
    with pytest.raises(ValueError, match="another shape"):
        History.of(np.zeros((2, 2), np.float32), 0, 0)
