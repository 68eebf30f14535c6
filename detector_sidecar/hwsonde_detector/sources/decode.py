"""An answer of the HTTP API -> samples. Pure: bytes in, values out."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import orjson

from hwsonde_detector.errors import SourceGarbled, SourcePartial, SourceRefused
from hwsonde_detector.types import Floats, Mask, SampleBatch, Series, Times

SEPARATOR = b"\x1e"
"""Between several answers: a byte that JSON text cannot hold."""

FUTURE_MS = 1000
"""A sample later than the time that was asked for by more than this is none."""

# Remarks about a query's meaning. Whatever else a server warns of is about data that it could not get.
_HARMLESS = ("PromQL info", "PromQL warning", "metric might not be a")
_FARTHEST_S = 1e11


@dataclass(slots=True)
class SeriesTable:
    """Identities of the last answer: the next one usually has the same and need not build them again.

    It only saves time; results do not depend on it.
    """

    keys: list[tuple[tuple[str, str], ...]] | None = None
    order: Sequence[int] = ()
    series: tuple[Series, ...] = ()


def decode_matrix(body: bytes, known: SeriesTable | None = None) -> tuple[SampleBatch, tuple[str, ...]]:
    """Read one answer of ``/api/v1/query`` (with a range selector) or ``/api/v1/query_range``.

    Parameters
    ----------
    body
        JSON, as the server sent it.
    known
        What the last call with the same object learned.

    Returns
    -------
    batch
        Series in order of identity, without native histograms; times in ms.
    warnings
        Harmless remarks, one line each.

    Raises
    ------
    SourceGarbled
        No such JSON; the text says what was got instead.
    SourceRefused
        The server's answer is an error.
    SourcePartial
        The server says that something is missing.
    """
    with collector_paused():
        document = _parse(body)
        try:
            warnings = _remarks(document)
            data = document["data"]
            if data["resultType"] != "matrix":
                raise SourceGarbled(
                    f"the answer holds a {one_line(data['resultType'], 40)} instead of a matrix; is it the API of Prometheus?"
                )
            entries = data["result"]
            plain = [entry for entry in entries if "values" in entry]
            if len(plain) < len(entries):
                if any("histograms" not in entry for entry in entries if "values" not in entry):
                    raise SourceGarbled("the answer holds a series without values")
                warnings = (*warnings, f"{len(entries) - len(plain)} native histograms were left out")
            return _batch(plain, known or SeriesTable()), warnings
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError):
            raise SourceGarbled(
                "the answer is JSON of another shape than the API's; is it the API of Prometheus?"
            ) from None


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's cyclic collector: it would walk over every sample's little list, several times over."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def decode_answers(raw: bytes, since_ms: int, known: SeriesTable | None = None) -> tuple[SampleBatch, tuple[str, ...]]:
    """Read answers joined by `SEPARATOR` and keep samples later than ``since_ms``; errors as in `decode_matrix`."""
    if SEPARATOR not in raw:
        batch, warnings = decode_matrix(raw, known)
        return later_than(batch, since_ms), warnings
    parts = [decode_matrix(body) for body in raw.split(SEPARATOR)]
    return later_than(merge([batch for batch, _ in parts]), since_ms), tuple(
        chain.from_iterable(lines for _, lines in parts)
    )


def later_than(batch: SampleBatch, since_ms: int) -> SampleBatch:
    """Samples later than ``since_ms``; series without one disappear."""
    return _kept(batch, batch.times > since_ms)


def without_future(batch: SampleBatch, asked_ms: int) -> tuple[SampleBatch, int]:
    """Samples not later than ``asked_ms`` (and `FUTURE_MS`), and how many others there were.

    Prometheus never gives others. What does (a wrong clock on the way, a broken server) would move the detector's time to where nothing
    else is, so that no sample of the present is new any more.
    """
    kept = _kept(batch, batch.times <= asked_ms + FUTURE_MS)
    return kept, int(batch.times.size - kept.times.size)


def _kept(batch: SampleBatch, keep: Mask) -> SampleBatch:
    if keep.all():
        return batch
    owners = np.repeat(np.arange(len(batch.series)), np.diff(batch.offsets))[keep]
    counts = np.bincount(owners, minlength=len(batch.series))
    series = tuple(one for one, count in zip(batch.series, counts, strict=True) if count)
    return SampleBatch(series, _offsets(counts[counts > 0]), batch.times[keep], batch.values[keep])


def merge(batches: Sequence[SampleBatch]) -> SampleBatch:
    """One batch of several that have no series in common.

    Raises
    ------
    SourceGarbled
        They have.
    """
    places = sorted(
        (one, number, index) for number, batch in enumerate(batches) for index, one in enumerate(batch.series)
    )
    series = tuple(one for one, _, _ in places)
    _unique(series)
    if not places:
        return SampleBatch.empty()
    parts = [slice(batches[number].offsets[index], batches[number].offsets[index + 1]) for _, number, index in places]
    times = [batches[number].times[part] for (_, number, _), part in zip(places, parts, strict=True)]
    values = [batches[number].values[part] for (_, number, _), part in zip(places, parts, strict=True)]
    counts = np.fromiter((len(part) for part in times), np.int64, len(times))
    return SampleBatch(series, _offsets(counts), np.concatenate(times), np.concatenate(values))


def refusal(body: bytes) -> str | None:
    """The server's own words in an error answer, None where there are none."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict) or document.get("status") != "error":
        return None
    return f"{one_line(document.get('errorType', 'error'), 40)}: {one_line(document.get('error', ''))}"


def describe(body: bytes) -> str:
    """What a body looks like that is not JSON of the API, in a few words."""
    head = body[:2000].lstrip().lower()
    if not head:
        return "nothing at all"
    if head.startswith((b"<!doctype", b"<html", b"<head", b"<?xml", b"<")):
        return "HTML or XML, as a proxy or a login page sends it"
    if head.startswith((b"{", b"[")):
        return "damaged JSON"
    return "text that is no JSON"


def one_line(text: object, longest: int = 200) -> str:
    """Make foreign text fit for a log: one line, printable, bounded."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)[: 4 * longest]).split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def _parse(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if body.lstrip()[:1] == b"{" and error.pos >= len(body.decode("utf-8", "replace")) - 1:
            raise SourceGarbled("the answer is truncated: its JSON ends too early; check what lies between") from None
        raise SourceGarbled(f"the answer is {describe(body)}; check the address and what lies between") from None
    if not isinstance(document, dict) or document.get("status") not in {"success", "error"}:
        raise SourceGarbled("the answer is JSON of something else; is it the API of Prometheus?")
    if document["status"] == "error":
        raise SourceRefused(refusal(body) or "error")
    return document


def _remarks(document: dict[str, Any]) -> tuple[str, ...]:
    warnings = [one_line(text) for text in document.get("warnings") or ()]
    serious = [text for text in warnings if not text.startswith(_HARMLESS)]
    if serious or document.get("isPartial") is True:
        more = f" (and {len(serious) - 1} more)" if len(serious) > 1 else ""
        raise SourcePartial(f"the answer is partial: {serious[0] if serious else 'the server says so'}{more}")
    return (*warnings, *(one_line(text) for text in document.get("infos") or ()))


def _batch(entries: list[dict[str, Any]], known: SeriesTable) -> SampleBatch:
    keys = [tuple(entry["metric"].items()) for entry in entries]
    if keys != known.keys:
        series = [_series(key) for key in keys]
        order = sorted(range(len(keys)), key=lambda index: (series[index].name, series[index].labels))
        ordered = tuple(series[index] for index in order)
        _unique(ordered)
        known.keys, known.order, known.series = keys, order, ordered
    lists = [entries[index]["values"] for index in known.order]
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    total = int(counts.sum())
    seconds = np.fromiter((second for second, _ in chain.from_iterable(lists)), np.float64, total)
    values = np.fromiter((float(value) for _, value in chain.from_iterable(lists)), np.float64, total)
    if not (np.abs(seconds) < _FARTHEST_S).all():
        raise SourceGarbled("the answer holds a time that is none")
    times = np.rint(seconds * 1000).astype(np.int64)
    batch = SampleBatch(known.series, _offsets(counts), times, values)
    return batch if _ascending(batch) and counts.all() else _tidy(batch)


def _series(key: tuple[tuple[str, str], ...]) -> Series:
    labels = dict(key)
    name = labels.pop("__name__")
    if not isinstance(name, str) or not all(isinstance(value, str) for value in labels.values()):
        raise SourceGarbled("the answer holds a label that is no text")
    return Series(name, tuple(sorted(labels.items())))


def _unique(series: Sequence[Series]) -> None:
    for one, other in pairwise(series):
        if one == other:
            raise SourceGarbled(f"the answer holds the series {one_line(one.name, 80)} twice with the same labels")


def _offsets(counts: Times) -> Times:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def _ascending(batch: SampleBatch) -> bool:
    rising = np.diff(batch.times) > 0
    inner = batch.offsets[1:-1]
    rising[inner[(inner > 0) & (inner < batch.times.size)] - 1] = True
    return bool(rising.all())


def _tidy(batch: SampleBatch) -> SampleBatch:
    """Order of time within series, the last of samples of one time, no empty series: what two merged replicas may send."""
    series: list[Series] = []
    times: list[Times] = []
    values: list[Floats] = []
    for index, one in enumerate(batch.series):
        part = slice(batch.offsets[index], batch.offsets[index + 1])
        order = np.argsort(batch.times[part], kind="stable")
        moments, readings = batch.times[part][order], batch.values[part][order]
        if moments.size:
            last = np.append(np.diff(moments) > 0, values=True)
            series.append(one)
            times.append(moments[last])
            values.append(readings[last])
    if not series:
        return SampleBatch.empty()
    counts = np.fromiter(map(len, times), np.int64, len(times))
    return SampleBatch(tuple(series), _offsets(counts), np.concatenate(times), np.concatenate(values))
