"""Which series of one scrape target make which channels, as index arrays that a tick only has to follow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.signals.places import addresses, places_of
from hwsonde_detector.signals.profiles.rules import Aggregate, Clock, Formula, Part, Place, Profile, Reading, Rule
from hwsonde_detector.types import Channel, Device, Floats, Mask, Series

_PLAIN_VALUE = re.compile(r"[^\s,={}\"\\]+")

Indices = NDArray[np.int64]
_Groups = dict[tuple[int, tuple[str, ...]], list[list[Series]]]
# What a column is: a series, and the part of the rule that reads it; a number below 0 is that of no rule.
Column = tuple[Series, int, int]
_MARK, _CLOCK, _PLACE = -1, -2, -3
# Unix time; what lies beyond is no time of ours.
_CLOCK_HIGH = 1e11


def channel_name(base: str, labels: Iterable[tuple[str, str]]) -> str:
    """Name of a channel, such as ``network_bytes{device=eth0,direction=receive}``; odd values are quoted, so that names stay unique."""
    pairs = [
        f"{label}={value if _PLAIN_VALUE.fullmatch(value) else json.dumps(value, ensure_ascii=False)}"
        for label, value in labels
    ]
    return f"{base}{{{','.join(pairs)}}}" if pairs else base


def family(channel: str) -> str:
    """Name of the rule that made a channel, of the channel's name."""
    return channel.partition("{")[0]


@dataclass(frozen=True, slots=True, eq=False)
class RuleBook:
    """The rules of several profiles, found by the name of a series.

    ``rules`` in order of profile; ``readers`` gives for each name the numbers of rule and part that want it; ``marks`` are the
    names that tell of a restart; ``clocks`` are what rules name as such, by name of the series and collector; ``places`` what tells where
    devices sit, by name of the series.
    """

    rules: tuple[Rule, ...]
    readers: Mapping[str, tuple[tuple[int, int], ...]]
    marks: frozenset[str]
    clocks: Mapping[str, Mapping[str, Clock]]
    places: Mapping[str, tuple[Place, ...]]

    def wants(self, series: Series) -> bool:
        """Whether anything here reads a series."""
        named = (self.readers, self.marks, self.places)
        return any(series.name in names for names in named) or self.clock_of(series) is not None

    def clock_of(self, series: Series) -> Clock | None:
        """What a series is the clock of."""
        collectors = self.clocks.get(series.name)
        return collectors.get(dict(series.labels).get("collector", "")) if collectors is not None else None

    @staticmethod
    def of(profiles: Iterable[Profile]) -> RuleBook:
        """Index the rules of profiles."""
        profiles = tuple(profiles)
        rules = tuple(rule for profile in profiles for rule in profile.rules)
        readers: dict[str, list[tuple[int, int]]] = {}
        for number, rule in enumerate(rules):
            for place, part in enumerate(rule.parts):
                readers.setdefault(part.name, []).append((number, place))
        marks = frozenset(profile.restart for profile in profiles if profile.restart is not None)
        clocks: dict[str, dict[str, Clock]] = {}
        for clock in sorted({rule.clock for rule in rules if rule.clock is not None}):
            clocks.setdefault(clock.metric, {})[clock.collector] = clock
        read = {name: tuple(found) for name, found in readers.items()}
        return RuleBook(rules, read, marks, clocks, places_of(profiles))


@dataclass(frozen=True, slots=True, eq=False)
class Paces:
    """Which columns and channels of a target are read when.

    What a scrape reads has the pace 0, what ``clocks[p - 1]`` tells of the pace p.

    Attributes
    ----------
    clocks
        Clocks of any column, ascending.
    of_column, of_channel
        int64 (n) and (c): pace of each column and channel.
    paced
        Numbers of the channels with another pace than 0.
    clock_columns, of_clock_column
        int64 (k) each: columns that hold a clock's series, and the paces that they tell of.
    """

    clocks: tuple[Clock, ...]
    of_column: Indices
    of_channel: Indices
    paced: Indices
    clock_columns: Indices
    of_clock_column: Indices


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Index arrays of one target.

    Columns are pairs of a series and the rule's part that reads it, in order of term; a term is what one part of one channel
    aggregates. The columns behind the first ``width`` belong to no term: parts of channels that are not complete, what tells where devices
    sit, clocks, and the ``marks`` last ones, which tell of restarts.

    Attributes
    ----------
    book
        The rules that it was made from.
    series
        The known series that any rule reads, ascending.
    columns
        n keys.
    columns_of
        Numbers of the columns of each series.
    is_value, is_rate, is_moment
        bool (n): what of the column is looked at; neither value nor rate is a change. Moments are the counters of mean and deviation.
    low, high, rate_limit
        float64 (n).
    starts
        int64 (terms): first column of each term.
    aggregates
        Numbers of the terms that are averaged, or whose largest or smallest part counts; the others are sums.
    channels
        c channels in order of name.
    formulas
        For each formula its channels, and the terms of their parts, as int64 (channels of that formula) each.
    minimum, reference
        float64 (c), see `Rule`.
    paces
        See `Paces`.
    """

    book: RuleBook
    series: tuple[Series, ...]
    columns: tuple[Column, ...]
    columns_of: Mapping[Series, tuple[int, ...]]
    width: int
    marks: int
    is_value: Mask
    is_rate: Mask
    is_moment: Mask
    low: Floats
    high: Floats
    rate_limit: Floats
    starts: Indices
    aggregates: Mapping[Aggregate, Indices]
    channels: tuple[Channel, ...]
    formulas: Mapping[Formula, tuple[Indices, tuple[Indices, ...]]]
    minimum: Floats
    reference: Floats
    paces: Paces


def _channel(rule: Rule, values: tuple[str, ...], sites: Mapping[Device, str]) -> Channel:
    labels = tuple(zip(rule.by, values, strict=True))
    device = None
    if rule.device_kind is not None:
        name = dict(labels).get(rule.device_label or "", "")
        device = Device(rule.device_kind, name) if name else None
    return Channel(
        channel_name(rule.name, labels),
        rule.subsystem,
        device,
        rule.floor,
        rule.logarithmic,
        rule.weight,
        rule.unit,
        signed=rule.parts[0].reading is Reading.CHANGE,
        title=rule.title_of(dict(labels)),
        address=sites.get(device, "") if device is not None else "",
        flow=rule.formula is Formula.DEVIATION
        or (rule.formula is Formula.PLAIN and rule.parts[0].reading is Reading.RATE),
        paced=rule.clock is not None,
        role=rule.role,
    )


def _groups(series: Iterable[Series], book: RuleBook) -> _Groups:
    """Series of each part of each channel, by rule and values of its labels."""
    groups: _Groups = {}
    for one in series:
        labels = dict(one.labels)
        for number, place in book.readers.get(one.name, ()):
            rule = book.rules[number]
            if rule.parts[place].takes(labels):
                values = tuple(labels.get(label, "") for label in rule.by)
                parts = groups.setdefault((number, values), [[] for _ in rule.parts])
                parts[place].append(one)
    return groups


def _chosen(
    groups: _Groups, book: RuleBook, sites: Mapping[Device, str]
) -> list[tuple[Channel, int, list[list[Series]]]]:
    """Channels that have all their parts, in order of name; of two with one name that of the first rule."""
    chosen: dict[str, tuple[Channel, int, list[list[Series]]]] = {}
    for number, values in sorted(groups):
        if all(groups[number, values]):
            channel = _channel(book.rules[number], values, sites)
            chosen.setdefault(channel.name, (channel, number, groups[number, values]))
    return [chosen[name] for name in sorted(chosen)]


def _formulas(
    chosen: list[tuple[Channel, int, list[list[Series]]]], book: RuleBook
) -> dict[Formula, tuple[Indices, tuple[Indices, ...]]]:
    places: dict[Formula, list[list[int]]] = {}
    term = 0
    for index, (_, number, groups) in enumerate(chosen):
        places.setdefault(book.rules[number].formula, []).append([index, *range(term, term + len(groups))])
        term += len(groups)
    result = {}
    for formula, rows in places.items():
        table = np.array(rows, np.int64).T
        result[formula] = (table[0], tuple(table[1:]))
    return result


def _columns(
    found: _Groups, chosen: list[tuple[Channel, int, list[list[Series]]]], book: RuleBook
) -> tuple[list[Column], list[int], dict[Aggregate, list[int]]]:
    """Columns in order of term and those that belong to none, the first column of each term, and the terms by aggregate."""
    columns: list[Column] = []
    starts: list[int] = []
    aggregates: dict[Aggregate, list[int]] = {}
    for _, number, groups in chosen:
        for place, members in enumerate(groups):
            aggregates.setdefault(book.rules[number].parts[place].aggregate, []).append(len(starts))
            starts.append(len(columns))
            columns += [(one, number, place) for one in members]
    # Parts of channels that lack another part are followed all the same: the other may come back.
    columns += [
        (one, number, place)
        for (number, _), groups in sorted(found.items())
        if not all(groups)
        for place, members in enumerate(groups)
        for one in members
    ]
    return columns, starts, aggregates


def _paces(columns: list[Column], chosen: list[tuple[Channel, int, list[list[Series]]]], book: RuleBook) -> Paces:
    def told_by(column: Column) -> Clock | None:
        one, number, _ = column
        return book.clock_of(one) if number == _CLOCK else None

    def read_by(column: Column) -> Clock | None:
        return book.rules[column[1]].clock if column[1] >= 0 else None

    named = {told_by(column) for column in columns} | {read_by(column) for column in columns}
    clocks = tuple(sorted(clock for clock in named if clock is not None))
    pace: dict[Clock | None, int] = {None: 0, **{clock: place for place, clock in enumerate(clocks, 1)}}
    of_channel = np.array([pace[book.rules[number].clock] for _, number, _ in chosen], np.int64)
    told = np.array([pace[told_by(column)] for column in columns], np.int64)
    clock_columns = np.flatnonzero(told)
    return Paces(
        clocks=clocks,
        of_column=np.array([pace[read_by(column)] for column in columns], np.int64),
        of_channel=of_channel,
        paced=np.flatnonzero(of_channel),
        clock_columns=clock_columns,
        of_clock_column=told[clock_columns],
    )


def build_layout(series: Iterable[Series], book: RuleBook) -> Layout:
    """Lay out the channels of one target.

    Parameters
    ----------
    series
        All series known of the target, in any order; those that no rule reads are passed over.
    book
        The rules.
    """
    known = tuple(sorted({one for one in series if book.wants(one)}))
    found = _groups(known, book)
    infos = [one for one in known if one.name in book.places]
    chosen = _chosen(found, book, addresses(infos, book.places))
    columns, starts, aggregates = _columns(found, chosen, book)
    width = sum(len(members) for _, _, groups in chosen for members in groups)
    parts = [book.rules[number].parts[place] for _, number, place in columns]
    moments = [book.rules[number].formula in (Formula.MEAN, Formula.DEVIATION) for _, number, _ in columns]
    clocks = [one for one in known if book.clock_of(one) is not None]
    marks = [one for one in known if one.name in book.marks]
    parts += [Part(one.name, Reading.VALUE) for one in infos]
    parts += [Part(one.name, Reading.MARK, low=0.0, high=_CLOCK_HIGH) for one in clocks]
    parts += [Part(one.name, Reading.MARK) for one in marks]
    moments += [False] * (len(infos) + len(clocks) + len(marks))
    columns += [(one, _PLACE, 0) for one in infos]
    columns += [(one, _CLOCK, 0) for one in clocks] + [(one, _MARK, 0) for one in marks]
    columns_of: dict[Series, tuple[int, ...]] = {}
    for index, (one, _, _) in enumerate(columns):
        columns_of[one] = (*columns_of.get(one, ()), index)
    readings = np.array([part.reading for part in parts], np.int64)
    return Layout(
        book=book,
        series=known,
        columns=tuple(columns),
        columns_of=columns_of,
        width=width,
        marks=len(marks),
        is_value=np.equal(readings, Reading.VALUE),
        is_rate=np.equal(readings, Reading.RATE),
        is_moment=np.array(moments, np.bool_),
        low=np.array([part.low for part in parts], np.float64),
        high=np.array([part.high for part in parts], np.float64),
        rate_limit=np.array([part.rate_limit for part in parts], np.float64),
        starts=np.array(starts, np.int64),
        aggregates={kind: np.array(terms, np.int64) for kind, terms in aggregates.items()},
        channels=tuple(channel for channel, _, _ in chosen),
        formulas=_formulas(chosen, book),
        minimum=np.array([book.rules[number].minimum for _, number, _ in chosen], np.float64),
        reference=np.array([book.rules[number].reference for _, number, _ in chosen], np.float64),
        paces=_paces(columns, chosen, book),
    )


def aggregate(signals: Floats, present: Mask, layout: Layout) -> Floats:
    """Join columns into terms.

    Parameters
    ----------
    signals
        float64 (rows, n): values, rates and changes; NaN where known to be wrong.
    present
        bool (rows, n): False where a series is new or has vanished, so that it takes no part.
    layout
        Whose columns these are.

    Returns
    -------
    Floats
        float64 (rows, terms); NaN where any present part is NaN, or none is present.
    """
    starts, width = layout.starts, layout.width
    if not len(starts):
        return np.zeros((len(signals), 0))
    signals, present = signals[:, :width], present[:, :width]
    if len(starts) == width:
        return np.where(present, signals, np.nan)
    terms = np.add.reduceat(np.where(present, signals, 0.0), starts, axis=1)
    counts = np.add.reduceat(present, starts, axis=1, dtype=np.int64)
    averaged = layout.aggregates.get(Aggregate.MEAN)
    if averaged is not None:
        terms[:, averaged] /= np.maximum(counts[:, averaged], 1)
    for kind, fold, neutral in ((Aggregate.MAX, np.maximum, -np.inf), (Aggregate.MIN, np.minimum, np.inf)):
        chosen = layout.aggregates.get(kind)
        if chosen is not None:
            terms[:, chosen] = fold.reduceat(np.where(present, signals, neutral), starts, axis=1)[:, chosen]
    return np.where(counts > 0, terms, np.nan)


def evaluate(terms: Floats, layout: Layout) -> Floats:
    """Channel values (rows, c) of terms (rows, terms); NaN where not known or not finite."""
    values = np.full((len(terms), len(layout.channels)), np.nan)
    for formula, (channels, parts) in layout.formulas.items():
        first = terms[:, parts[0]]
        if formula is Formula.PLAIN:
            values[:, channels] = first
        elif formula is Formula.RATIO:
            values[:, channels] = first / np.maximum(terms[:, parts[1]], layout.minimum[channels])
        else:
            counts = terms[:, parts[1]]
            counts = np.where(counts > 0, counts, np.nan)
            mean = first / counts
            if formula is Formula.DEVIATION:
                spread = terms[:, parts[2]] / counts - (mean - layout.reference[channels]) ** 2
                mean = np.sqrt(np.maximum(spread, 0.0))
            values[:, channels] = mean
    values[~np.isfinite(values)] = np.nan
    return values
