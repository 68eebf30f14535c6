"""Reading history back in bounded parts, raw and on a grid."""

from __future__ import annotations

import pytest

from hwsonde_detector.errors import SourceRefused
from hwsonde_detector.sources.prometheus import MAX_POINTS
from tests.detector.sources import server as fake
from tests.detector.sources.answers import answer, identity
from tests.detector.sources.server import source


def asked_stretches(server):
    return [
        (float(a.form["time"]) * 1000 - int(a.form["query"].rsplit("[")[1][:-2]) * 1000, float(a.form["time"]) * 1000)
        for a in server.asked
    ]


def by_time(count):
    """A server with `count` series and a sample of each at every full second."""

    def behave(handler):
        form = handler.server.asked[-1].form
        end = int(float(form["time"]))
        length = int(form["query"].rsplit("[")[1][:-2])
        handler.reply(
            answer(
                [
                    (identity("up", n=str(n)), [(second * 1000, 1.0) for second in range(end - length, end + 1)])
                    for n in range(count)
                ]
            )
        )

    return behave


def test_raw_history_covers_every_sample_once_in_bounded_parts(server):
    server.play(by_time(3))
    reads = list(source(server, max_samples=300).history(10_500, 1_000_500))
    times = [ms for read in reads for ms in read.batch.times.reshape(3, -1)[0].tolist()]
    assert times == list(range(11_000, 1_001_000, 1000))
    assert max(read.batch.times.size for read in reads) <= 330
    assert all(
        left[1] <= right[1] for left, right in zip(asked_stretches(server), asked_stretches(server)[1:], strict=False)
    )


def test_history_that_is_too_much_for_the_server_is_halved(server):
    plain = by_time(1)

    def strict(handler):
        if int(handler.server.asked[-1].form["query"].rsplit("[")[1][:-2]) > 7:
            handler.reply(
                b'{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}',
                422,
            )
        else:
            plain(handler)

    server.play(strict)
    times = [ms for read in source(server).history(0, 60_000) for ms in read.batch.times.tolist()]
    assert times == list(range(1000, 61_000, 1000))


def test_history_that_fails_otherwise_ends_with_the_error(server):
    server.play(fake.status(500))
    with pytest.raises(SourceRefused):
        list(source(server).history(0, 60_000))


def test_history_on_a_grid_is_aligned_and_split(server):
    points = []

    def grid(handler):
        form = handler.server.asked[-1].form
        start, end, step = (round(float(form[name]) * 1000) for name in ("start", "end", "step"))
        assert start % step == 0
        assert end % step == 0
        moments = range(start, end + 1, step)
        points.append(len(moments))
        if len(moments) > MAX_POINTS:
            handler.reply(
                b'{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution of 11,000 points per timeseries."}',
                400,
            )
        else:
            handler.reply(answer([(identity("up"), [(ms, 1.0) for ms in moments])]))

    server.play(grid)
    reads = list(source(server).history(123, 60_000_000, 1000))
    times = [ms for read in reads for ms in read.batch.times.tolist()]
    assert times == list(range(1000, 60_001_000, 1000))
    assert max(points) == MAX_POINTS
    assert server.asked[0].path == "/api/v1/query_range"


def test_a_grid_needs_a_step(server):
    with pytest.raises(ValueError, match="positive"):
        source(server).history(0, 1, 0)
