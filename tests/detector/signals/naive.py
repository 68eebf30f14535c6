"""Slow and obvious versions of what the signals room computes; the fast ones must equal them, NaN included."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

from hwsonde_detector.signals.layout import RuleBook, channel_name
from hwsonde_detector.signals.profiles.rules import Aggregate, Formula, Reading

NAN = math.nan
FORGET = 600_000


def label(series, name):
    return dict(series.labels).get(name, "")


def target(series):
    return label(series, "job"), label(series, "instance")


def plan(series, rules):
    """Channels of one target: name -> (rule, series of each part); and the same of those that lack a part."""
    found, lacking = {}, []
    for rule in rules:
        own = {}
        for one in series:
            for place, part in enumerate(rule.parts):
                if part.name == one.name and part.takes(dict(one.labels)):
                    values = tuple(label(one, key) for key in rule.by)
                    own.setdefault(values, [[] for _ in rule.parts])[place].append(one)
        for values, parts in own.items():
            if all(parts):
                found.setdefault(channel_name(rule.name, list(zip(rule.by, values, strict=True))), (rule, parts))
            else:
                lacking.append((rule, parts))
    return found, lacking


def interval_at(times, time):
    """Lower median of the last nine differences up to a time; 0 before the second scrape since ten minutes of silence."""
    past = []
    for one in times:
        if one <= time:
            past = [*past[-9:], one] if past and one - past[-1] <= FORGET else [one]
    gaps = [after - before for before, after in pairwise(past)]
    return statistics.median_low(gaps) if gaps else 0


class Counts:
    def __init__(self):
        self.resets = self.rejected = 0


class Pace:
    """What a clock says of the values that are read at a pace of its own; without a clock each scrape reads them."""

    def __init__(self, clock, samples, rules, counts):
        self.said = {}
        for one, pairs in samples.items():
            if clock is not None and (one.name, label(one, "collector")) == (clock.metric, clock.collector):
                for time, value in pairs:
                    if math.isfinite(value) and 0 <= value <= 1e11:
                        self.said[time] = max(value, self.said.get(time, value))
                    else:
                        counts.rejected += 1
        self.repeats = {
            time
            for before, time in pairwise(sorted(self.said))
            if self.said[time] == self.said[before] and time - before <= FORGET
        }
        self.readings = sorted(
            {
                time
                for one, pairs in samples.items()
                if any(
                    rule.clock == clock and part.name == one.name and part.takes(dict(one.labels))
                    for rule in rules
                    for part in rule.parts
                )
                for time, _ in pairs
                if time not in self.repeats
            }
        )

    def passed(self, before, time):
        """Milliseconds between the readings that two scrapes showed: by the clock, unless it was set."""
        if before in self.said and time in self.said:
            span = (self.said[time] - self.said[before]) * 1000
            if (time - before) / 3 <= span <= time - before + FORGET:
                return span
        return time - before

    def interval_at(self, time):
        steps, before = [], None
        for one in self.readings:
            if one > time:
                break
            if before is not None:
                steps = [*steps[-8:], max(one - before, round(self.passed(before, one)))]
                steps = steps if one - before <= FORGET else []
            before = one
        return statistics.median_low(steps) if steps else 0

    def held(self, values, times):
        """The value of each scrape: that of the newest reading, if it is not too old."""
        result = {}
        for time in times:
            past = [one for one in self.readings if one <= time]
            fresh = past and time - past[-1] <= min(1.5 * self.interval_at(time), FORGET)
            result[time] = values[past[-1]] if fresh else NAN
        return result


def signal(samples, part, pace, interval, counts):
    """Time -> value of one series: a number, NaN where it is known to be wrong, missing where it takes no part."""
    result = {}
    last = None
    for time, value in samples:
        if time in pace.repeats:
            continue
        if not (math.isfinite(value) and part.low <= value <= part.high):
            result[time] = NAN
            counts.rejected += 1
            continue
        before, last = last, (time, value)
        if part.reading is Reading.VALUE:
            result[time] = value
            continue
        if before is None or time - before[0] > FORGET:
            continue
        rate = (value - before[1]) / (pace.passed(before[0], time) / 1000)
        if part.reading is Reading.RATE and value < before[1]:
            counts.resets += 1
            rate = NAN
        elif abs(rate) > part.rate_limit:
            counts.rejected += 1
            rate = NAN
        if interval(time) and time - before[0] > 2.5 * interval(time):
            rate = NAN
        result[time] = rate
    return result


def join(values, how):
    if not values:
        return NAN
    if any(math.isnan(value) for value in values):
        return NAN
    if how is Aggregate.SUM:
        return sum(values)
    if how is Aggregate.MEAN:
        return sum(values) / len(values)
    return max(values) if how is Aggregate.MAX else min(values)


def evaluate(rule, terms):
    if any(math.isnan(term) for term in terms):
        return NAN
    if rule.formula is Formula.PLAIN:
        return terms[0]
    if rule.formula is Formula.RATIO:
        return terms[0] / max(terms[1], rule.minimum)
    if terms[1] <= 0:
        return NAN
    mean = terms[0] / terms[1]
    if rule.formula is Formula.MEAN:
        return mean
    return math.sqrt(max(terms[2] / terms[1] - (mean - rule.reference) ** 2, 0.0))


def target_rows(samples, rules):
    """Time -> channel -> value of one target, at its own scrape times; with its times and counts."""
    channels, lacking = plan(samples, rules)
    counts = Counts()
    paces = {clock: Pace(clock, samples, rules, counts) for clock in {None, *(rule.clock for rule in rules)}}
    read = {one for _, parts in [*channels.values(), *lacking] for part in parts for one in part}
    times = {time for one in read for time, _ in samples[one]}
    for one in samples:
        if any(clock and (clock.metric, clock.collector) == (one.name, label(one, "collector")) for clock in paces):
            times |= {time for time, _ in samples[one]}
    times = sorted(times)
    rows = {time: {} for time in times}

    def interval(clock):
        return paces[clock].interval_at if clock is not None else lambda time: interval_at(times, time)

    for rule, groups in lacking:
        for part, group in zip(rule.parts, groups, strict=True):
            for one in group:
                signal(samples[one], part, paces[rule.clock], interval(rule.clock), counts)
    for name, (rule, groups) in channels.items():
        pace = paces[rule.clock]
        signals = [
            [signal(samples[one], part, pace, interval(rule.clock), counts) for one in group]
            for part, group in zip(rule.parts, groups, strict=True)
        ]
        values = {}
        for time in times:
            terms = [
                join([one[time] for one in group if time in one], part.aggregate)
                for part, group in zip(rule.parts, signals, strict=True)
            ]
            values[time] = evaluate(rule, terms)
        for time, value in (values if rule.clock is None else pace.held(values, times)).items():
            rows[time][name] = value
    return times, rows, counts


def channel_rows(samples, profiles, primary):
    """Rows of an entity, from all samples at once: time -> channel -> value; resets; rejected samples.

    ``samples`` maps each series to its (time, value) pairs, ascending; ``primary`` is the target that gives the rows their times.
    """
    rules = RuleBook.of(profiles).rules
    by_target = {}
    for series, pairs in samples.items():
        by_target.setdefault(target(series), {})[series] = pairs
    known = {one: target_rows(own, rules) for one, own in by_target.items()}
    result = {}
    for time in known[primary][0]:
        row = {}
        for one in [primary, *sorted(set(known) - {primary})]:
            times, rows, _ = known[one]
            past = [other for other in times if other <= time]
            if past and time - past[-1] <= 1.5 * interval_at(times, past[-1]):
                values = rows[past[-1]]
            elif past and past[-1] == time:
                values = rows[time]
            else:
                values = dict.fromkeys(rows[times[0]], NAN) if times else {}
            for name, value in values.items():
                row.setdefault(name, value)
        result[time] = row
    return result, sum(one[2].resets for one in known.values()), sum(one[2].rejected for one in known.values())


def slope(window):
    centre = (len(window) - 1) / 2
    weights = [place - centre for place in range(len(window))]
    scale = math.fsum(weight**2 for weight in weights)
    first = window[0]
    return (
        math.fsum(weight * (value - first) for weight, value in zip(weights, window, strict=True)) / scale
        if scale
        else 0.0
    )


FEATURES = {
    "mean": lambda window: math.fsum(window) / len(window),
    "deviation": statistics.pstdev,
    "minimum": min,
    "maximum": max,
    "slope": slope,
    "difference": lambda window: window[-1] - window[-2] if len(window) > 1 else 0.0,
    "energy": lambda window: math.fsum(value * value for value in window) / len(window),
}


def feature(window, name):
    return FEATURES[name](window) if all(math.isfinite(value) for value in window) else NAN


def window_features(values, rows, features):
    result = []
    for start in range(len(values) - rows + 1):
        line = []
        for channel in range(len(values[0])):
            window = [float(values[start + shift][channel]) for shift in range(rows)]
            line += [feature(window, name) for name in features]
        result.append(line)
    return result


def full_windows(times, interval, rows):
    return [
        all(0 < times[start + shift + 1] - times[start + shift] <= 1.5 * interval for shift in range(rows - 1))
        for start in range(max(len(times) - rows + 1, 0))
    ]


def correlation(left, right):
    """Correlation of two columns with gaps: means and deviations over what is known of each, products over what is known of both."""

    def centred(column):
        known = [value for value in column if math.isfinite(value)]
        mean = math.fsum(known) / len(known)
        moved = [value - mean if math.isfinite(value) else 0.0 for value in column]
        length = math.sqrt(math.fsum(value * value for value in moved))
        return [value / length for value in moved]

    return math.fsum(one * two for one, two in zip(centred(left), centred(right), strict=True))


def prune(columns, channels, bound):
    """Names of the channels that are kept."""

    def moves(column):
        known = [value for value in column if math.isfinite(value)]
        return len(known) > 1 and max(known) - min(known) > 1e-9 * max(abs(max(known)), abs(min(known)))

    order = sorted(
        (
            (-channel.weight, sum(not math.isfinite(value) for value in column), channel.name, channel, column)
            for channel, column in zip(channels, columns, strict=True)
            if moves(column)
        ),
        key=lambda item: item[:3],
    )
    kept = []
    for item in order:
        if all(abs(correlation(item[4], other[4])) <= bound for other in kept):
            kept.append(item)
    for item in order:
        if item[3].subsystem not in {other[3].subsystem for other in kept}:
            kept.append(item)
    return {item[3].name for item in kept}
