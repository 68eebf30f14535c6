"""Keeps account of TCP connections between two looks at them, so that what is published only grows."""

from __future__ import annotations

from dataclasses import dataclass

from hwsonde_exporter.collectors._inet_diag import SIZE_OF, Flow

_MODULUS = 1 << 32
_MOST_STEPS = 1 << 31  # a larger step of a counter modulo 2^32 is one backwards
# A look may miss a connection whose neighbour in the kernel's table goes away meanwhile.
_MISSES = 2


@dataclass(slots=True)
class Account:
    """What the connections between a device and a group have done since the exporter started.

    ``lost`` counts segments sent again that were not reported as superfluous by the next look, ``spurious`` those that the
    peer got twice. ``flows``, ``stalled`` and ``least_rtt`` (microseconds, 0 if not known) speak of the latest look;
    ``idle_looks`` counts those in a row that found no connection.
    """

    segments: int = 0
    lost: int = 0
    spurious: int = 0
    flows: int = 0
    stalled: int = 0
    least_rtt: int = 0
    idle_looks: int = 0

    def begin(self) -> None:
        """Forget what spoke of the latest look."""
        self.idle_looks = 0 if self.flows else self.idle_looks + 1
        self.flows = self.stalled = self.least_rtt = 0


class _Known:
    """A connection that was seen before: the kernel's counters, and what they have added up to since it was first seen."""

    __slots__ = ("account", "acknowledged", "counted", "duplicates", "look", "raw", "retransmits")

    def __init__(self, account: Account, flow: Flow, look: int) -> None:
        self.account = account
        self.acknowledged = flow.acknowledged
        self.raw = (flow.retransmits, flow.duplicates, flow.segments)
        self.retransmits = self.duplicates = self.counted = 0
        self.look = look

    def settle(self) -> None:
        """Count as lost what was sent again and has not been reported as superfluous."""
        lost = self.retransmits - self.duplicates
        # Reports come late: what was counted as lost may prove superfluous, and is made up for by the next losses.
        if lost > self.counted:
            self.account.lost += lost - self.counted
            self.counted = lost


class Ledger:
    """All connections of the latest looks.

    A look begins with `begin`, takes each connection by `update` and ends with `end`. The counters of a connection that a
    look finds for the first time count from zero if the look before saw all there were, because then it is new; else from
    their present values, which are nobody knows how old.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}
        self._look = 0
        self._all_seen = False

    def begin(self) -> None:
        """Begin a look."""
        self._look += 1

    def update(self, flow: Flow, account: Account) -> tuple[bool, bool]:
        """Take a connection into ``account``; gives whether it is new, and whether its peer has acknowledged data since."""
        account.flows += 1
        account.stalled += flow.unanswered > 0
        if flow.least_rtt > 0 and not 0 < account.least_rtt <= flow.least_rtt:
            account.least_rtt = flow.least_rtt
        known = self._known.get(flow.cookie)
        if known is None:
            known = self._known[flow.cookie] = _Known(account, flow, self._look)
            if self._all_seen:
                self._grow(known, flow, (0, 0, 0))
            return True, self._all_seen
        active = flow.acknowledged != known.acknowledged
        known.acknowledged = flow.acknowledged
        known.look = self._look
        known.account = account
        counters = (flow.retransmits, flow.duplicates, flow.segments)
        if counters != known.raw:
            before, known.raw = known.raw, counters
            self._grow(known, flow, before)
        elif known.retransmits - known.duplicates > known.counted:
            known.settle()
        return False, active

    def end(self, *, all_seen: bool) -> None:
        """End a look; ``all_seen`` says whether it saw every connection there was."""
        self._all_seen = all_seen
        gone = [
            cookie for cookie, known in self._known.items() if self._look - known.look >= (_MISSES if all_seen else 1)
        ]
        for cookie in gone:
            self._known.pop(cookie).settle()

    def __len__(self) -> int:
        """Give the number of connections that are remembered."""
        return len(self._known)

    @staticmethod
    def _grow(known: _Known, flow: Flow, before: tuple[int, int, int]) -> None:
        retransmits, duplicates, segments = (
            _step(new, old) for new, old in zip((flow.retransmits, flow.duplicates, flow.segments), before, strict=True)
        )
        known.duplicates += duplicates
        known.settle()
        known.retransmits += retransmits
        account = known.account
        account.segments += segments
        account.spurious += duplicates
        if flow.size < SIZE_OF["dsack_dups"]:
            known.settle()  # no report will come


def _step(new: int, old: int) -> int:
    step = (new - old) % _MODULUS
    return step if step < _MOST_STEPS else 0
