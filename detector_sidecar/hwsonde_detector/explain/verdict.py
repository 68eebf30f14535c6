"""The answer of a report in one sentence: what is wrong, or that it is not the hardware, or that nobody can know. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from math import isfinite

from hwsonde_detector.explain.coverage import Coverage, shares
from hwsonde_detector.explain.findings import Finding, Role
from hwsonde_detector.explain.known import Known
from hwsonde_detector.explain.known import limits as known_limits
from hwsonde_detector.explain.rootcause import Cause, Onset
from hwsonde_detector.explain.titles import channel_label, part_name, quantity
from hwsonde_detector.types import Direction, Entity

_DAY_MS = 86_400_000
_NAMED = 3


class Kind(StrEnum):
    """What a verdict says."""

    FAULT = "fault"
    CLEAN = "clean"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence, and what limits it, a sentence each."""

    kind: Kind
    sentence: str
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Moments:
    """Writes times: without the date where the whole range lies on one day (UTC)."""

    start_ms: int
    end_ms: int

    def text(self, ms: int) -> str:
        """``19:23:41Z``, or ``2026-11-29 19:23:41Z`` where the range has more than one date."""
        at = datetime.fromtimestamp(ms / 1000, UTC)
        one_day = self.start_ms // _DAY_MS == max(self.end_ms - 1, self.start_ms) // _DAY_MS
        return at.strftime("%H:%M:%SZ" if one_day else "%Y-%m-%d %H:%M:%SZ")


def name_of(entity: Entity) -> str:
    """What a host is called."""
    return str(entity) or "unnamed"


def brief(text: str, most: int = 80) -> str:
    """A name as a line for people bears it: the middle of what somebody made very long is left out."""
    return text if len(text) <= most else f"{text[: most - 21]}\N{HORIZONTAL ELLIPSIS}{text[-20:]}"


def called(entity: Entity) -> str:
    """A host in a sentence: whole, since nobody could replace what is left of a name; who shows the sentence shortens it."""
    return name_of(entity)


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """``a, b and c``, or ``a, b, c and 5 more``."""
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def percent(share: float) -> str:
    """``99.2 %``; what is not the whole is never called 100 %, what is more than nothing never 0 %."""
    value = share * 100
    if 0 < share < 1:
        value = min(max(value, 0.1), 99.9)
    return f"{value:.1f}".removesuffix(".0") + " %"


def against(finding: Finding) -> str:
    """How far a channel is off: ``98 %, expected at most 31 %``."""
    unit = finding.channel.unit
    if not isfinite(finding.value):
        return "no value"
    value, low, high = (quantity(one, unit) for one in (finding.value, finding.lower, finding.upper))
    if finding.direction is Direction.STUCK:
        return f"stuck at {value}"
    if finding.direction is Direction.NOISY:
        return f"{value}, unsteady between {low} and {high}"
    if finding.value > finding.upper:
        return f"{value}, expected at most {high}"
    if finding.value < finding.lower:
        return f"{value}, expected at least {low}"
    return f"{value}, unusually {finding.direction} between {low} and {high}"


def cause_sentence(cause: Cause, moments: Moments) -> str:
    """``n17: memory: pressure 63 %, expected at most 4 %, since 19:23:41Z; also ...``, with the other hosts where there are some."""
    hosts = [called(onset.entity) for onset in cause.onsets]
    first = cause.onsets[0].entity
    own = [one for one in cause.findings if one.entity == first and one.role is not Role.ELSEWHERE]
    loudest = next((one for one in own if cause.device is None or one.channel.device == cause.device), None)
    address = loudest.channel.address if loudest is not None and loudest.channel.device == cause.device else ""
    part = part_name(cause.subsystem, cause.device, address)
    since = f"since {moments.text(cause.start_ms)}"
    if loudest is None:
        return f"{_who(cause, hosts)}: {part}: unusual {since}"
    others = [channel_label(one.channel, cause.device) for one in own if one is not loudest][:2]
    also = f"; also {', '.join(others)}" if others else ""
    return f"{_who(cause, hosts)}: {part}: {channel_label(loudest.channel, cause.device)} {against(loudest)}, {since}{also}"


def order_sentence(cause: Cause) -> str:
    """Which host was first, as far as that can be told; empty with one host."""
    if len(cause.onsets) < 2:
        return ""
    rest = [onset for onset in cause.onsets if onset.entity not in cause.first]
    within = seconds(max(onset.uncertainty_ms for onset in cause.onsets))
    if len(cause.first) > 1:
        names = listed([called(entity) for entity in cause.first])
        text = f"Which of {names} was first cannot be told: they began within one scrape interval ({within})"
        return f"{text}." if not rest else f"{text}; {_later(cause, rest)}."
    return f"{called(cause.first[0])} was first; {_later(cause, rest)} (plus or minus {within})."


def seconds(ms: float) -> str:
    """Length of time for people: ``0.2 s``, ``15 s``, ``3 min``, ``2.5 h``, ``3 d``."""
    value = ms / 1000
    for size, word in ((86_400, "d"), (3600, "h"), (60, "min")):
        if value >= 2 * size:
            return f"{value / size:.1f}".removesuffix(".0") + f" {word}"
    return f"{value:.1f}".removesuffix(".0") + " s"


def verdict(
    causes: Sequence[Cause], hosts: Sequence[Coverage], moments: Moments, known: Sequence[Known] = ()
) -> Verdict:
    """Say what happened.

    Parameters
    ----------
    causes
        Ranked; none where there was no episode.
    hosts
        Coverage of every host that the question is about.
    moments
        How times are written.
    known
        What is known of these hosts without any score, ranked.

    Returns
    -------
    Verdict
        ``fault`` where there is a cause. ``clean`` only where every host was judged: 95 % of its windows and 90 % of its channels, to the end
        and by a calibrated model, no host was above 1 more often than chance explains, and nothing is known that speaks against it.
        Otherwise ``unknown``, which says why.
    """
    told = {entity for one in known for entity in one.entities}
    limits = (*known_limits(known), *_limits(hosts, told, moments))
    sure = [one for one in known if one.cause]
    if causes or sure:
        first = sure[0].sentence.removesuffix(".") if sure else cause_sentence(causes[0], moments)
        more = len(causes) + len(sure) - 1
        rest = f" ({more} further cause{'s' if more > 1 else ''} in the report)" if more else ""
        return Verdict(Kind.FAULT, f"{first}{rest}", limits)
    if limits:
        fine = [host for host in hosts if host.enough and not host.restless and host.lost_ms is None]
        fine = [host for host in fine if host.entity not in told]
        rest = f" The others: {_judged(fine)}" if fine else ""
        return Verdict(Kind.UNKNOWN, f"Not known: {_within(limits[0])}{rest}", limits)
    if not hosts:
        return Verdict(Kind.UNKNOWN, "Not known: no host was heard in this time.")
    return Verdict(Kind.CLEAN, f"Not the hardware: {_judged(hosts)}")


def _within(sentence: str) -> str:
    """A sentence as it goes on behind a colon; a host keeps its name as it is."""
    return f"t{sentence[1:]}" if sentence.startswith("The ") else sentence


def _who(cause: Cause, hosts: Sequence[str]) -> str:
    if len(hosts) == 1:
        return hosts[0]
    if len(cause.first) == 1:
        return f"{hosts[0]}, then {listed(hosts[1:])}"
    return listed(hosts)


def _later(cause: Cause, rest: Sequence[Onset]) -> str:
    return listed([f"{called(one.entity)} {seconds(one.at_ms - cause.start_ms)} later" for one in rest])


def _judged(hosts: Sequence[Coverage]) -> str:
    """``8 hosts, 99.2 % of channels and 100 % of windows judged, none above 0.6``."""
    channels, windows = shares(hosts)
    count = f"{len(hosts)} host{'s' if len(hosts) > 1 else ''}"
    loud = [host for host in hosts if host.loud and host.worst is not None]
    text = f"{count}, {percent(channels)} of channels and {percent(windows)} of windows judged"
    worst = max(host.worst for host in hosts if host.worst is not None)
    if not loud:
        return f"{text}, none above {rounded_up(worst)}."
    windows_above = sum(host.loud for host in loud)
    many = f"{windows_above} single window{'s' if windows_above > 1 else ''} above 1"
    return f"{text}; {many} (at most {rounded_up(worst)}, on {listed([called(one.entity) for one in loud])}), none of them lasted."


def rounded_up(score: float) -> str:
    """A score with one decimal, rounded up: "none above" it must hold."""
    tenths = int(score * 10)
    return f"{(tenths if tenths == score * 10 else tenths + 1) / 10:.1f}"


def _limits(hosts: Sequence[Coverage], told: Collection[Entity], moments: Moments) -> tuple[str, ...]:
    """What a clean answer would have to keep silent about; ``told`` are hosts of which more is known."""
    found: list[str] = []
    unheard = [host for host in hosts if not host.judged and not host.uncalibrated]
    learning = [host for host in hosts if not host.judged and host.uncalibrated]
    thin = [host for host in hosts if host.judged and not host.enough]
    lost = [host for host in hosts if host.enough and host.lost_ms is not None and host.entity not in told]
    restless = [host for host in hosts if host.enough and host.restless]
    if unheard:
        found.append(f"{_subject(unheard, hosts)} had no window that could be judged ({listed(_names(unheard))}).")
    if learning:
        found.append(
            f"{_subject(learning, hosts)} had not learned enough for scores to count ({listed(_names(learning))})."
        )
    if thin:
        worst = min(thin, key=lambda host: (host.windows, host.channels))
        share = (
            f"{percent(worst.windows)} of windows and {percent(worst.channels)} of channels on {called(worst.entity)}"
        )
        found.append(f"{_subject(thin, hosts)} {_were(thin)} judged too little: {share}.")
    if lost:
        since = moments.text(min(host.lost_ms for host in lost if host.lost_ms is not None))
        found.append(f"{_subject(lost, hosts)} could not be judged any more from {since} on ({listed(_names(lost))}).")
    if restless:
        worst = max(restless, key=lambda host: host.loud / host.judged)
        share = f"{percent(worst.loud / worst.judged)} of windows on {called(worst.entity)}"
        found.append(f"{_subject(restless, hosts)} {_were(restless)} above 1 more often than chance explains: {share}.")
    return tuple(found)


def _subject(some: Sequence[Coverage], hosts: Sequence[Coverage]) -> str:
    return "The host" if len(hosts) == 1 else f"{len(some)} of {len(hosts)} hosts"


def _were(some: Sequence[Coverage]) -> str:
    return "was" if len(some) == 1 else "were"


def _names(hosts: Sequence[Coverage]) -> list[str]:
    return [called(host.entity) for host in hosts]
